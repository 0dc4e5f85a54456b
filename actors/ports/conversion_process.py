"""The child that converts one large law: the order comes on standard input, the answer goes to standard output.

Started by :mod:`actors.ports.conversion`. The order is pickled, since it comes from our own parent. The answer is not:
whatever a hostile text may make of this process, its parent reads nothing but values of known types.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys

import msgspec
from attrs import frozen

from protocols.bwb.errors import ConversionError, MalformedLaw
from protocols.lawproduct import Order, Product, produce

NICENESS = 5
"""Beats and claims of the supervisor go first on a small machine."""


@frozen
class Answer:
    """``product``, or why there is none: reason and message of a ``ConversionError``."""

    product: Product | None = None
    malformed: bool = False
    reason: str = ""
    message: str = ""


def main() -> int:
    os.nice(NICENESS)
    gc.disable()  # one conversion makes few cycles; looking for them costs a tenth of the time
    order = pickle.load(sys.stdin.buffer)  # noqa: S301 - written by our parent
    assert isinstance(order, Order)
    try:
        answer = Answer(produce(order))
    except ConversionError as error:
        answer = Answer(None, isinstance(error, MalformedLaw), error.reason, error.message)
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))
    return 0
