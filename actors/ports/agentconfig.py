"""What an agent CLI finds in its home: opencode's configuration and key; claude needs nothing there (D48, D50).

opencode is configured only where the image brings its configuration file: a developer's own home is left alone
(``enrich.md`` 12).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from protocols.dialects.opencode import Opencode
from protocols.failures import InvalidInput, JsonObject

BAKED_FILE = Path("/etc/opencode/opencode.json")
PLUGIN_FOLDER = Path("/opt/opencode-plugins/node_modules")
PLUGIN = "@ai-sdk/openai-compatible"
PROVIDER = "vlam"

OUTPUT_CEILING = 32_000
"""Tokens. opencode clamps ``limit.output`` to this unless ``OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX`` says more (OC-08)."""

ALLOWED_TOOLS = tuple(tool.lower() for tool in Opencode.granted_tools)
DENIED = (
    *("bash", "webfetch", "websearch", "codesearch", "task", "skill", "question", "lsp", "list"),
    *("todowrite", "todoread", "external_directory", "doom_loop"),
)
"""Each by name beside the rule for all: a class that a version asks about by default must not wait for ever (OC-05)."""

PERMISSION: Mapping[str, str] = {
    "*": "deny",
    **dict.fromkeys(DENIED, "deny"),
    **dict.fromkeys(ALLOWED_TOOLS, "allow"),
}
"""The last rule that fits wins. Nothing asks: there is nobody to answer."""


@frozen
class OpencodeSetup:
    """opencode's configuration for every call of this supervisor. ``model`` is what the image's file names."""

    document: JsonObject = field(repr=False)
    model: str | None
    api_key: str | None = field(default=None, repr=False)
    plugins: Path | None = None
    warnings: tuple[str, ...] = ()

    def write(self, home: Path) -> None:
        """Put it into ``home``, which is private to one call: ``.config/opencode`` and ``.local/share/opencode``.

        The key's file never has another mode than 0600. OSError from the disk.
        """
        config, data = home / ".config/opencode", home / ".local/share/opencode"
        for folder in (config, data):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(config / "opencode.json", self.document)
        if self.api_key is not None:
            _write(data / "auth.json", {PROVIDER: {"type": "api", "key": self.api_key}})
        if self.plugins is not None and not (config / "node_modules").exists():
            (config / "node_modules").symlink_to(self.plugins)
            _write(config / "package.json", {"dependencies": {PLUGIN: "*"}})

    @property
    def readable(self) -> tuple[Path, ...]:
        """What opencode must be able to read outside its folders."""
        return () if self.plugins is None else (self.plugins,)


def load_opencode(
    environ: Mapping[str, str], *, baked: Path = BAKED_FILE, plugins: Path = PLUGIN_FOLDER
) -> OpencodeSetup | None:
    """Read the image's file; None where there is none. ``VLAM_API_URL`` and ``VLAM_API_KEY`` come from ``environ``.

    ``VLAM_BASE_URL``, the older name, is the whole address including ``/v1``. InvalidInput when the file is no JSON
    object of the expected shape.
    """
    try:
        text = baked.read_bytes()
    except FileNotFoundError:
        return None
    try:
        document = json.loads(text)
        provider = document["provider"][PROVIDER]
        models = dict(provider["models"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{baked} has no provider.{PROVIDER}.models: mend the file of the image") from error
    warnings = []
    address = api_url(environ)
    if address is None:
        warnings.append("VLAM_API_URL is not set: opencode has no endpoint and every call of it will fail")
    else:
        provider["options"] = {**(provider.get("options") or {}), "baseURL": f"{address}/v1"}
    if "VLAM_API_URL" not in environ and address is not None:
        warnings.append("VLAM_BASE_URL is the older name: set VLAM_API_URL, without /v1")
    model = f"{PROVIDER}/{next(iter(models))}" if len(models) == 1 else None
    warnings += _output_warnings(models, environ)
    return OpencodeSetup(
        document=_closed(document, model),
        model=model,
        api_key=environ.get("VLAM_API_KEY", "").strip() or None,
        plugins=plugins if plugins.is_dir() else None,
        warnings=tuple(warnings),
    )


def api_url(environ: Mapping[str, str]) -> str | None:
    """The address of VLAM without ``/v1`` and without a slash at the end; None when it is not configured.

    InvalidInput for one with a user part.
    """
    address = environ.get("VLAM_API_URL", "").strip() or environ.get("VLAM_BASE_URL", "").strip()
    if re.match(r"[^/]*//[^/]*@", address):
        raise InvalidInput("the address of VLAM holds a user name or password: put the key into VLAM_API_KEY")
    return address.rstrip("/").removesuffix("/v1").rstrip("/") or None


def output_limit(setup: OpencodeSetup) -> int:
    """``limit.output`` of the only model, as it goes out as ``max_tokens``."""
    models = setup.document["provider"][PROVIDER]["models"]
    limit = next(iter(models.values())).get("limit", {}).get("output")
    return limit if isinstance(limit, int) else OUTPUT_CEILING


def _closed(document: JsonObject, model: str | None) -> JsonObject:
    """``document`` with everything off that asks, fetches or shares, and titles written by the same model."""
    closed = {**document, "permission": dict(PERMISSION), "autoupdate": False, "share": "disabled"}
    closed.pop("mcp", None)
    closed.pop("plugin", None)
    if model is not None:
        # Without these opencode may pick a hosted model of its own, and the prompt would go there.
        closed |= {"model": model, "small_model": model, "enabled_providers": [PROVIDER]}
    return closed


def _output_warnings(models: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    raised = environ.get("OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX", "").strip()
    ceiling = int(raised) if raised.isdecimal() else OUTPUT_CEILING
    warnings = []
    for name, facts in models.items():
        limit = facts.get("limit", {}).get("output") if isinstance(facts, dict) else None
        if isinstance(limit, int) and limit > ceiling:
            warnings.append(
                f"limit.output of {name} is {limit}, but opencode sends at most {ceiling}: "
                f"set OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX={limit} too"
            )
    return warnings


def _write(path: Path, document: JsonObject) -> None:
    """Create ``path`` with mode 0600 from its first moment on."""
    content = json.dumps(document, indent=1).encode()
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
