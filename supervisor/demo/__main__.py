"""Play a user: start the commands one would type, show what they print, and stop everything again.

Everything lives below ``demo-output/``: the database, a bare repository that stands for the corpus server, the checkout of
the supervisor, and a clone to look at. Nothing outside this machine is asked.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from supervisor import exitcodes
from supervisor.settings import AREAS
from supervisor.settings.reader import specs
from supervisor.terminaltext import say

SAMPLES = Path(__file__).parent / "samples"
ROOT_LAW = "BWBR0990001"
BRANCH = "main"
START_LIMIT_S = 60
QUEUE_LIMIT_S = 60
DRAIN_LIMIT_S = 45
PAUSE_S = 0.5
COMMAND = (sys.executable, "-m", "supervisor")


class DemoFailed(click.ClickException):
    """A part of the demo did not do what it should; the text says which."""


@click.command(help="Watch a supervisor harvest a few sample laws, on this machine alone.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    help="Folder for everything the demo makes; an earlier one is removed.",
)
def main(output: Path) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started_s = time.monotonic()
    folder = _fresh(output.absolute())
    corpus = _bare_repository(folder / "corpus.git")
    try:
        _harvest(folder, corpus)
    except KeyboardInterrupt:
        _say("stopped; the supervisor has drained")
        return
    clone = _clone(corpus, folder / "corpus")
    files = sorted(clone.rglob("20*.yaml"))
    if not files:
        raise DemoFailed(f"no law arrived in {corpus}")
    _say(f"done in {time.monotonic() - started_s:.0f} s; the corpus repository has {len(files)} laws:")
    for path in files:
        say(f"  {_short(path)}")
    first = next(path for path in files if "wet_op_de_fietstoeslag" in path.parts)
    _say(f"the law that was asked for, {_short(first)}, begins so:")
    say("\n".join(f"  {line}" for line in first.read_text(encoding="utf-8").splitlines()[:24]))


def _harvest(folder: Path, corpus: Path) -> None:
    """From the first command to the drained supervisor."""
    with _mirror() as base_url:
        environ = _environment(folder, corpus, base_url)
        with _supervisor(environ) as supervisor:
            _say(f"asking for one law, {ROOT_LAW}")
            _show(environ, "harvest", ROOT_LAW, "--embedded", "--wait")
            _say("it refers to others; the supervisor goes on until the queue is empty")
            _until_idle(environ, supervisor)
            _show(environ, "laws", "list", "--embedded")
            _show(environ, "jobs", "list", "--embedded")
            _say("telling the supervisor to stop; it drains")


def _fresh(folder: Path) -> Path:
    """An empty folder. Only one that an earlier demo made is removed."""
    marker = folder / ".made-by-demo"
    if folder.exists():
        if any(folder.iterdir()) and not marker.exists():
            raise DemoFailed(f"{folder} is not empty and was not made by the demo; give another one with --output")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    marker.touch()
    return folder


def _environment(folder: Path, corpus: Path, base_url: str) -> dict[str, str]:
    """Ours without any setting of the user's shell: the demo must not touch their database or corpus."""
    names = {name for cls in AREAS for _, spec in specs(cls) for name in (spec.name, *spec.fallbacks)}
    return {
        **{name: value for name, value in os.environ.items() if name not in names},
        "XDG_DATA_HOME": str(folder / "data"),
        "CORPUS_REPO_URL": str(corpus),
        "CORPUS_REPO_PATH": str(folder / "checkout"),
        "CORPUS_BRANCH": BRANCH,
        "BWB_REPOSITORY_URL": base_url,
        "HARVEST_CACHE_DIR": str(folder / "downloads"),
        "LOG_FORMAT": "text",
        **({"FORCE_COLOR": "1"} if sys.stderr.isatty() else {}),
    }


def _bare_repository(path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", f"--initial-branch={BRANCH}", str(path)], check=True)
    return path


def _clone(corpus: Path, target: Path) -> Path:
    subprocess.run(["git", "clone", "--quiet", str(corpus), str(target)], check=True)
    return target


@contextmanager
def _mirror() -> Iterator[str]:
    """The sample laws, served on loopback in the layout of the public repository; its address."""
    argv = [*COMMAND, "mirror", str(SAMPLES), "--serve"]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, process_group=0
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            if not line.startswith("http://127.0.0.1:"):
                raise DemoFailed("the mirror did not start")
            _say(f"sample laws are served at {line}")
            yield line
        finally:
            process.terminate()


@contextmanager
def _supervisor(environ: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A supervisor that is ready, with its log on this terminal; drained at the end and at Ctrl-C."""
    argv = ("run", "--roles", "harvest", "--embedded")
    _say(f"$ regelrecht-supervisor {' '.join(argv)} &")
    ready = queue.SimpleQueue[bool]()
    # In a process group of its own, so that Ctrl-C reaches it once, through us.
    with subprocess.Popen(
        [*COMMAND, *argv], env=environ, stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        log = threading.Thread(target=_copy_log, args=(process, ready))
        log.start()
        try:
            _await_ready(ready)
            yield process
        finally:
            process.terminate()
            try:
                code = process.wait(DRAIN_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise DemoFailed(f"the supervisor did not drain within {DRAIN_LIMIT_S} s") from None
            finally:
                log.join()
        if code != exitcodes.CLEAN:
            raise DemoFailed(f"the supervisor ended with exit code {code}")


def _copy_log(process: subprocess.Popen[str], ready: queue.SimpleQueue[bool]) -> None:
    """Pass the log on, line by line. Before it is ready nobody may ask for the embedded server: who asks first owns it."""
    assert process.stderr is not None
    for line in process.stderr:
        say(line.rstrip("\n"), err=True)
        if "ready to claim" in line:
            ready.put(True)
    ready.put(False)


def _await_ready(ready: queue.SimpleQueue[bool]) -> None:
    with contextlib.suppress(queue.Empty):
        if ready.get(timeout=START_LIMIT_S):
            return
    raise DemoFailed("the supervisor did not become ready; its log says why")


def _until_idle(environ: Mapping[str, str], supervisor: subprocess.Popen[str]) -> None:
    """Until no job waits or runs. A supervisor that ends before that is a failure."""
    deadline_s = time.monotonic() + QUEUE_LIMIT_S
    while time.monotonic() < deadline_s:
        listed = subprocess.run(
            [*COMMAND, "jobs", "list", "--embedded", "--json"], env=environ, stdout=subprocess.PIPE, check=True
        )
        if not [job for job in json.loads(listed.stdout) if job["status"] in {"pending", "processing"}]:
            return
        try:
            code = supervisor.wait(PAUSE_S)
        except subprocess.TimeoutExpired:
            continue
        raise DemoFailed(f"the supervisor ended early, with exit code {code}")
    raise DemoFailed(f"the queue is not empty after {QUEUE_LIMIT_S} s")


def _show(environ: Mapping[str, str], *args: str) -> None:
    """Type a command, and let it print."""
    _say(f"$ regelrecht-supervisor {' '.join(args)}")
    done = subprocess.run([*COMMAND, *args], env=environ, check=False)
    if done.returncode != exitcodes.CLEAN:
        raise DemoFailed(f"`{' '.join(args)}` ended with exit code {done.returncode}")


def _say(text: str) -> None:
    say(text, bold=True)


def _short(path: Path) -> str:
    return os.path.relpath(path)


if __name__ == "__main__":
    main()
