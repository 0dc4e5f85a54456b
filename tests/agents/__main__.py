"""``python -m tests.agents [pytest arguments]``: fetch the pinned CLIs, then run the tests that need them, cut off from the network.

Where they cannot be had it says so and ends well: a machine without npm is no fault. The tests see nothing but a loopback
of their own when the kernel lets us; the CLIs are other people's programs, and one of them looks for its package host.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys

from tests.kit import agentbinaries

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
TESTS_FAILED = 1
"""pytest's exit code. The CLIs want a processor each: what failed beside others must pass alone, or it has failed."""
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1


def main() -> int:
    for name, pin in agentbinaries.pins().items():
        if os.environ.get(f"{name.upper()}_PATH"):
            continue
        try:
            path = agentbinaries.fetch(pin)
        except agentbinaries.NotAvailable as why:
            print(f"agents: {why}: skipped")
            return 0
        except agentbinaries.WrongPackage as fault:
            print(f"agents: {fault}", file=sys.stderr)
            return 1
        print(f"agents: {name} {pin.version} in {path.parent}")
    if not isolate():
        print("agents: this kernel gives us no network of our own; the tests run with the one that is there")
    sys.stdout.flush()
    pytest = [sys.executable, "-m", "pytest", "-m", "agents", "tests/agents"]
    code = subprocess.call([*pytest, *sys.argv[1:]])
    if code != TESTS_FAILED:
        return code
    print("agents: once more, one at a time, what failed", flush=True)
    return subprocess.call([*pytest, "--last-failed", "--last-failed-no-failures", "none"])


def isolate() -> bool:
    """Move this process into a network with nothing but a loopback; the database must then be in it as well."""
    user, group = os.getuid(), os.getgid()
    flags = CLONE_NEWNET if user == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if ctypes.CDLL(None, use_errno=True).unshare(flags) != 0:
        return False
    if user != 0:
        for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(line)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sH14x", b"lo", 0)
        (_, up) = struct.unpack("16sH14x", fcntl.ioctl(probe, SIOCGIFFLAGS, request))
        fcntl.ioctl(probe, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", up | IFF_UP))
    os.environ.pop("DATABASE_URL", None)
    os.environ["DOCKER_HOST"] = "none"
    return True


if __name__ == "__main__":
    sys.exit(main())
