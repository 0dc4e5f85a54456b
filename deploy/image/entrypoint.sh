#!/bin/sh
# Before the supervisor: the folders that a read-only image cannot bring, and, for enrichment, what the model service says of
# itself. That check fails nothing: a pod starts although its model service is away.
set -eu

mkdir -p "$HOME" "$REGULATION_REPO_PATH"

case " $* " in
*" run "*enrich*) regelrecht-supervisor vlam-check || true ;;
esac

exec regelrecht-supervisor "$@"
