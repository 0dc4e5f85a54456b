"""How a call of one provider is made here: command line, environment, folders, credential (D48, D49)."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from attrs import field, frozen

from actors.agent import SliceCall
from actors.jobs.enrich.settings import EnrichSettings
from actors.ports.agentconfig import PERMISSION, OpencodeSetup, load_opencode
from actors.ports.agentfolders import SliceFolder, prepare_copy
from actors.ports.launcher import AgentCommand
from protocols import sessions
from protocols.budget import CLAUDE, OPENCODE
from protocols.credentials import TOKEN_VARIABLE, Credential, choose, credentials_of
from protocols.dialects import DIALECTS
from protocols.dialects.base import AgentCall, Dialect, Session
from protocols.skillset import NotConfigured
from schema.pauses import Usable

_log = structlog.get_logger(__name__)


@frozen
class Order:
    """One call that a slice is to make. ``attach``: a file below the checkout that goes along with the prompt."""

    folder: SliceFolder
    prompt: str = field(repr=False)
    plan: sessions.Plan
    attach: str | None = None


@frozen
class Lane:
    """One provider on this machine, as its settings say. ``model`` None: nothing names one."""

    dialect: Dialect
    settings: EnrichSettings
    skills: Path
    binary: str
    model: str | None
    effort: str | None
    opencode: OpencodeSetup | None = None
    credentials: tuple[Credential, ...] = ()

    @classmethod
    def of(cls, name: str, settings: EnrichSettings, skills: Path) -> Lane:
        """InvalidInput when a setting of the provider cannot be used."""
        dialect = DIALECTS[name]
        setup = load_opencode(settings.environ) if name == OPENCODE and not settings.user_home else None
        for warning in () if setup is None else setup.warnings:
            _log.warning("agent configuration", provider=name, hint=warning)
        return cls(
            dialect=dialect,
            settings=settings,
            skills=skills,
            binary=dialect.binary(settings.environ),
            model=dialect.model(settings.environ, None if setup is None else setup.model),
            effort=dialect.effort(settings.environ),
            opencode=setup,
            credentials=credentials_of(name, settings.environ),
        )

    @property
    def missing_program(self) -> str | None:
        """What to do about a CLI that is not on this machine; None: it is there."""
        if shutil.which(self.binary, path=self.settings.environ.get("PATH", os.defpath)) is not None:
            return None
        return f"{self.binary}: there is no such program; install it, or name it with {self.dialect.binary_settings[0]}"

    @property
    def lacks(self) -> tuple[str, ...]:
        """What to do before a call of this provider can succeed here; empty: nothing is known to be amiss."""
        found = [] if self.missing_program is None else [self.missing_program]
        if self.model is None:
            found.append(self._no_model)
        if self.dialect.name == CLAUDE and not self.credentials and not self.settings.user_home:
            # opencode may have a login in its configuration; claude has none but this in the empty home of a call (D48).
            found.append(f"{CLAUDE} has no login here: set {TOKEN_VARIABLE}")
        return tuple(found)

    @property
    def _no_model(self) -> str:
        return f"no model is named for {self.dialect.name}: set {' or '.join(self.dialect.model_settings)}"

    @property
    def wanted(self) -> bool:
        """Whether somebody set up this provider: named its program, gave it a login, or an hourly limit (claude)."""
        limited = self.dialect.name == CLAUDE and self.settings.hourly_limit > 0
        named = any(self.settings.environ.get(name) for name in self.dialect.binary_settings)
        return bool(self.credentials) or named or limited

    @property
    def branch(self) -> str:
        return f"enrich/{self.dialect.name}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must appear in no text."""
        return tuple(credential.secret for credential in self.credentials)

    def credential(self, usable: Usable) -> Credential | None:
        """The one for a window: it is kept for all its calls, so that the cache of the provider stays warm.

        A job that was let through to try one in trouble again uses that one (D52).
        """
        probed = tuple(credential for credential in self.credentials if credential.hash in usable.probes)
        chosen = choose(probed or self.credentials, time.time(), usable.benched)
        if chosen is not None and chosen.count > 1:
            _log.info("agent credential", provider=self.dialect.name, chosen=str(chosen), kind=chosen.kind)
        return chosen

    @asynccontextmanager
    async def slice_call(
        self, order: Order, *, label: str, limit_s: float, credential: Credential | None
    ) -> AsyncIterator[SliceCall]:
        """The call, with everything it needs on disk for the length of the block.

        NotConfigured when no model is known; Transient or OSError when the disk does not take it.
        """
        if self.model is None:
            raise NotConfigured(self._no_model)
        if self.opencode is not None:
            async with order.folder.call_home() as folder:
                self.opencode.write(folder.home)
                yield await self._made(order, folder, label, limit_s, credential)
        else:
            yield await self._made(order, order.folder, label, limit_s, credential)

    async def _made(
        self, order: Order, folder: SliceFolder, label: str, limit_s: float, credential: Credential | None
    ) -> SliceCall:
        assert self.model is not None
        await prepare_copy(folder.checkout, self.skills)
        command = self.dialect.command(
            self.binary,
            AgentCall(
                prompt=order.prompt,
                cwd=str(folder.checkout),
                model=self.model,
                effort=self.effort,
                session=_session(order.plan),
                attach=None if order.attach is None else str(folder.checkout / order.attach),
            ),
        )
        for warning in command.warnings:
            _log.warning("agent command", provider=self.dialect.name, hint=warning)
        env = self.dialect.environment(
            self.settings.environ,
            folders=None if self.settings.user_home else folder.folders,
            extra=self.settings.agent_env,
            credential="" if credential is None else credential.secret,
        )
        if self.settings.user_home:
            env |= self._in_a_users_home(folder)
        return SliceCall(
            label=label,
            command=AgentCommand(
                command.argv,
                env=env,
                cwd=folder.checkout,
                writable=(*folder.writable, *self._users_own()),
                readable=() if self.opencode is None else self.opencode.readable,
                stdin=command.stdin,
                named_by=self.dialect.binary_settings[0],
            ),
            folder=folder.path,
            limit_s=limit_s,
            asked_model=self.model,
            resumed=isinstance(order.plan, sessions.Resume),
        )

    def _in_a_users_home(self, folder: SliceFolder) -> dict[str, str]:
        """What holds there too: temporary files below our own folder, and for opencode the denials, whatever its
        configuration allows (D50)."""
        variables = {"TMPDIR": str(folder.tmp)}
        if self.dialect.name == OPENCODE:
            variables["OPENCODE_PERMISSION"] = json.dumps(dict(PERMISSION))
        return variables

    def _users_own(self) -> tuple[Path, ...]:
        """The user's home, and the folders that the user keeps elsewhere."""
        names = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        given = (self.settings.environ.get(name, "") for name in names)
        return tuple(Path(path) for path in given if path) if self.settings.user_home else ()


def _session(plan: sessions.Plan) -> Session | None:
    match plan:
        case sessions.Open(id_):
            return Session(str(id_))
        case sessions.Resume(id_):
            return Session(str(id_), resume=True)
        case _:
            return None
