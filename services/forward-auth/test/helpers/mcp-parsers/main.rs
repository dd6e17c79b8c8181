//! Reads the bodies of calls of MCP as servers in Rust do: a line of base64 in, a line of JSON out, with what each way to
//! read the body makes of it, or null if it refuses the body.
use std::io::{self, BufRead, BufWriter, Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
struct Request {
    jsonrpc: String,
    method: Option<String>,
    #[serde(default)]
    params: Params,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Params {
    name: Option<String>,
    uri: Option<String>,
    task_id: Option<String>,
    arguments: Option<Map<String, Value>>,
}

/// Structs, as SDKs have them.
fn read_structs(body: &[u8]) -> Option<Value> {
    let Request { jsonrpc, method, params } = serde_json::from_slice(body).ok()?;
    (jsonrpc == "2.0").then(|| {
        json!({
            "method": method, "name": params.name, "uri": params.uri, "taskId": params.task_id,
            "arguments": params.arguments,
        })
    })
}

fn read_value(body: &[u8]) -> Option<Value> {
    let message: Value = serde_json::from_slice(body).ok()?;
    let params = &message["params"];
    (message["jsonrpc"] == "2.0").then(|| {
        json!({
            "method": message["method"], "name": params["name"], "uri": params["uri"], "taskId": params["taskId"],
            "arguments": params["arguments"],
        })
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let body = STANDARD.decode(line?)?;
        writeln!(out, "{}", json!({ "structs": read_structs(&body), "value": read_value(&body) }))?;
    }
    Ok(())
}
