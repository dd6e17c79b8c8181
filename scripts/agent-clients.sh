#!/usr/bin/env bash
# Gets clients of MCP that are programs of their own: `scripts/agent-clients.sh FOLDER` those that CI tries,
# `scripts/agent-clients.sh FOLDER all` also libraries for Go, FastMCP and MCP Inspector. The test finds them by
# $AGENT_CLIENTS.
set -euo pipefail
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
cd "$(dirname "$0")/.."

get_python() {
  python3 -m venv "$folder/$1"
  "$folder/$1/bin/pip" install -q --disable-pip-version-check "$2"
}
get_npm() {
  npm install --silent --no-audit --no-fund --prefix "$folder" "$1"
}

get_python python1 mcp==1.30.0
get_python python2 mcp==2.3.0
get_npm mcp-remote@0.15.1
if [ "${2:-}" = all ]; then
  (
    cd services/forward-auth/test/helpers/agent-clients/programs
    go build -trimpath -o "$folder/" ./go-sdk ./mcp-go
  )
  get_python fastmcp fastmcp==4.2.3
  get_npm @modelcontextprotocol/inspector@2.12.0
fi
