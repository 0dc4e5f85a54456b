"""``convert --loss-report``: per text how much of it is in the YAML, what was left out on purpose, and what is LOST."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path

from attrs import asdict, frozen

from protocols.bwb import toestand
from protocols.bwb.errors import ConversionError
from protocols.bwb.loss import LossReport, loss_report
from protocols.cvdr import regeling
from protocols.failures import JsonObject
from protocols.law import Law
from protocols.lawyaml import dump_law, load_law
from supervisor import exitcodes
from supervisor.commands.session import print_json
from supervisor.terminaltext import say


@frozen
class Measured:
    """One text that was converted, and the comparison of its words with those of the YAML."""

    path: Path
    law: Law
    report: LossReport

    def lines(self) -> Iterable[str]:
        report = self.report
        left_out = ", ".join(f"{element} {count:,}" for element, count in report.left_out.items()) or "nothing"
        yield f"{self.law.law_id}  {self.law.title}, from {self.law.valid_from}"
        yield f"  visible characters   in {report.characters_in:,}, out {report.characters_out:,}"
        yield f"  left out on purpose  {left_out}"
        yield f"  LOST                 {report.lost_characters:,}"
        yield from (f"    {piece.place}: {piece.text}" for piece in report.lost)

    def document(self) -> JsonObject:
        return {
            "file": str(self.path),
            "law_id": self.law.law_id,
            "title": self.law.title,
            "valid_from": self.law.valid_from.isoformat(),
            "characters_in": self.report.characters_in,
            "characters_out": self.report.characters_out,
            "left_out": dict(self.report.left_out),
            "lost": self.report.lost_characters,
            "lost_places": [asdict(piece) for piece in self.report.lost],
        }


@frozen
class Refused:
    """One text that could not be converted."""

    path: Path
    error: ConversionError

    def lines(self) -> Iterable[str]:
        yield f"{self.path.name}  refused: {self.error.message}"

    def document(self) -> JsonObject:
        return {"file": str(self.path), "refused": {"reason": self.error.reason, "message": self.error.message}}


def report(texts: Iterable[tuple[Path, bytes]], day: date | None, style: str, *, as_json: bool) -> int:
    """Print the report of all texts; the exit code, which only a refused text makes other than 0."""
    found = [_measured(path, xml, day, toestand.Style(style)) for path, xml in texts]
    if as_json:
        print_json([each.document() for each in found])
    else:
        for each in found:
            for line in each.lines():
                say(line)
    return exitcodes.ESCALATED if any(isinstance(each, Refused) for each in found) else exitcodes.CLEAN


def _measured(path: Path, xml: bytes, day: date | None, style: toestand.Style) -> Measured | Refused:
    try:
        is_regeling = regeling.is_regeling(xml)
        convert = regeling.convert_alone if is_regeling else toestand.convert_alone
        law = convert(xml, style, day=day).law
        written = load_law(dump_law(law).encode())
        return Measured(path, law, regeling.regeling_loss(xml, written) if is_regeling else loss_report(xml, written))
    except ConversionError as error:
        return Refused(path, error)
