"""The database port: the only place that touches asyncpg and trio-asyncio (D8, D16).

A unit of work is one plain asyncio function ``async def f(connection, ...)`` that awaits nothing but the connection.
The port runs it in one crossing of the bridge between the loops, so no driver object reaches trio code, and a
cancelled unit always brings its connection home. Trouble is typed (``protocols.failures``):

- ``DatabaseUnavailable``: certainly nothing was written.
- ``OutcomeUnclear``: it may have been written. The connection was terminated first (D7).
- Whatever else the unit raises passes, rolled back; so does ``Refused``, the driver's word for a violated constraint or a
  value that the database cannot store.
"""

from actors.ports.database.connect import Refused, in_words, is_unfit_value
from actors.ports.database.listen import Subscription
from actors.ports.database.port import Database, Units, open_database
from actors.ports.database.settings import DatabaseSettings
from actors.ports.database.statistics import DatabaseStatistics

__all__ = [
    "Database",
    "DatabaseSettings",
    "DatabaseStatistics",
    "Refused",
    "Subscription",
    "Units",
    "in_words",
    "is_unfit_value",
    "open_database",
]
