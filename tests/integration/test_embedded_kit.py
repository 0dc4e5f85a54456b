import asyncio
import asyncpg


def test_a(database_url, empty_database_url):
    async def m(u):
        c = await asyncpg.connect(u)
        try:
            return await c.fetchval("select current_database()")
        finally:
            await c.close()

    print(asyncio.run(m(database_url)), asyncio.run(m(empty_database_url)))


def test_b(private_postgres):
    async def m(u):
        c = await asyncpg.connect(u)
        try:
            return await c.fetchval("select current_database()")
        finally:
            await c.close()

    asyncio.run(m(private_postgres.url))
    private_postgres.restart()
    asyncio.run(m(private_postgres.url))
    private_postgres.kill()
    private_postgres.start()
    asyncio.run(m(private_postgres.url))


def test_c(private_postgres):
    pass
