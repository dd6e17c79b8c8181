#!/usr/bin/env bash
# Gets servers of MCP by libraries of other versions and languages: `scripts/mcp-servers.sh FOLDER`. The test finds them by
# $MCP_SERVERS.
set -euo pipefail
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
cd "$(dirname "$0")/../services/forward-auth/test/helpers/mcp-servers/programs"

get_python() {
  python3 -m venv "$folder/$1"
  "$folder/$1/bin/pip" install -q --disable-pip-version-check "${@:2}"
}
# One module cannot have two versions of a library.
build_go() {
  local name="$1-$3" module="$folder/modules/$1-$3"
  mkdir -p "$module"
  cp "$1/main.go" "$module"
  printf 'module notes\n\ngo 1.26.0\n\nrequire %s v%s\n' "$2" "$3" >"$module/go.mod"
  (cd "$module" && GOFLAGS=-mod=mod go build -trimpath -o "$folder/$name" .)
}

npm install --silent --no-audit --no-fund --prefix "$folder" \
  sdk-1.10@npm:@modelcontextprotocol/sdk@1.10.2 sdk-1.13@npm:@modelcontextprotocol/sdk@1.13.3 fastmcp@4.20.16
for version in 0.32.0 0.43.2 1.2.1; do build_go mcp-go github.com/mark3labs/mcp-go "$version"; done
for version in 1.1.0 1.8.0; do build_go go-sdk github.com/modelcontextprotocol/go-sdk "$version"; done
# It imports what later versions of pydantic do not have.
get_python python-1.8 mcp==1.8.1 pydantic==2.11.10
get_python fastmcp-2 fastmcp==2.13.0
get_python fastmcp-4 fastmcp==4.2.3
