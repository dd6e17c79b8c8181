#!/usr/bin/env bash
# Gets what reads the OpenAPI documents: a linter, and generators of clients for TypeScript and Python.
# `scripts/api-clients.sh FOLDER`; the tests find them by $API_CLIENTS.
set -euo pipefail
mkdir -p "$1"
npm install --silent --no-audit --no-fund --prefix "$1" \
  @redocly/cli@2.77.0 @hey-api/openapi-ts@0.99.0 typescript@5.9.3
python3 -m venv "$1/python"
"$1/python/bin/pip" install -q --disable-pip-version-check openapi-python-client==0.29.1
