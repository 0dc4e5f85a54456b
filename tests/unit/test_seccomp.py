"""The filter's program on each machine, run by a small interpreter of what the kernel runs."""

from __future__ import annotations

import socket
import struct

import pytest

from actors.ports.seccomp import program

ALLOWED, REFUSED = 0x7FFF0000, 0x00050001
ENTRANCE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SOCKET = {"x86_64": 41, "aarch64": 198}
SOCKETPAIR = {"x86_64": 53, "aarch64": 199}
FOREIGN = {"i386": 0x40000003, "arm": 0x40000028, "aarch64be": 0x800000B7, "riscv64": 0xC00000F3}
CLOEXEC_NONBLOCK = 0o2004000
RUBBISH_ABOVE = 0xDEADBEEF << 32
"""An argument is a whole register, of which these calls look at the lower half."""

machines = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])


def verdict(machine: str, number: int, *arguments: int, entrance: int | None = None) -> int:
    """What the filter of ``machine`` answers to a call."""
    entrance = ENTRANCE[machine] if entrance is None else entrance
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("<IIQ6Q", number, entrance, 0x7F0000001000, *padded)
    steps = list(struct.iter_unpack("<HBBI", program(machine)))
    at = accumulator = 0
    while True:
        code, then, otherwise, value = steps[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == 0x54:
            accumulator &= value
        elif code == 0x15:
            at += then if accumulator == value else otherwise
        elif code == 0x35:
            at += then if accumulator >= value else otherwise
        else:
            assert code == 0x06
            return int(value)


@machines
@pytest.mark.parametrize("domain", [socket.AF_UNIX, socket.AF_UNIX | RUBBISH_ABOVE])
def test_a_unix_socket_is_refused_whatever_stands_in_the_upper_half(machine: str, domain: int) -> None:
    assert verdict(machine, SOCKET[machine], domain, socket.SOCK_STREAM) == REFUSED
    assert verdict(machine, SOCKET[machine], domain, socket.SOCK_DGRAM | CLOEXEC_NONBLOCK) == REFUSED


@machines
@pytest.mark.parametrize("domain", [socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK])
def test_a_socket_of_a_network_is_allowed(machine: str, domain: int) -> None:
    assert verdict(machine, SOCKET[machine], domain, socket.SOCK_STREAM) == ALLOWED


@machines
def test_a_pair_is_allowed_when_its_ends_can_only_talk_to_each_other(machine: str) -> None:
    answers = {
        kind: verdict(machine, SOCKETPAIR[machine], socket.AF_UNIX, kind | CLOEXEC_NONBLOCK | RUBBISH_ABOVE)
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM, socket.SOCK_RAW)
    }
    assert answers == {
        socket.SOCK_STREAM: ALLOWED,
        socket.SOCK_SEQPACKET: ALLOWED,
        socket.SOCK_DGRAM: REFUSED,
        socket.SOCK_RAW: REFUSED,  # for the kernel the same as datagrams
    }


@machines
def test_io_uring_is_refused_and_its_neighbours_are_not(machine: str) -> None:
    assert [verdict(machine, number) for number in range(424, 429)] == [ALLOWED, REFUSED, REFUSED, REFUSED, ALLOWED]


@machines
def test_every_other_call_is_allowed(machine: str) -> None:
    touched = {SOCKET[machine], SOCKETPAIR[machine], 425, 426, 427}
    assert {verdict(machine, number, 1, 2) for number in set(range(600)) - touched} == {ALLOWED}


@machines
@pytest.mark.parametrize("foreign", FOREIGN)
def test_nothing_comes_by_another_entrance(machine: str, foreign: str) -> None:
    assert {verdict(machine, number, entrance=FOREIGN[foreign]) for number in range(600)} == {REFUSED}
    other = {"x86_64": "aarch64", "aarch64": "x86_64"}[machine]
    assert verdict(machine, 0, entrance=ENTRANCE[other]) == REFUSED


@pytest.mark.parametrize("number", [0x40000000, 0x40000000 | 41, 0x40000000 | 425, 0xFFFFFFFF])
def test_the_numbers_of_x32_are_refused(number: int) -> None:
    assert verdict("x86_64", number, socket.AF_INET) == REFUSED
