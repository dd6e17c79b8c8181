#!/usr/bin/env bash
# Builds what reads bodies of MCP calls as servers in Go and Rust do: `scripts/mcp-parsers.sh FOLDER`. The test finds them
# by $MCP_PARSERS.
set -euo pipefail
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
cd "$(dirname "$0")/../services/forward-auth/test/helpers/mcp-parsers"

go build -trimpath -o "$folder/go" .
cargo build -q --release --locked --target-dir "$folder/target"
mv "$folder/target/release/parser" "$folder/rust"
rm -r "$folder/target"
