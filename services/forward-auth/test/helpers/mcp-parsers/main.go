// Reads the bodies of calls of MCP as servers in Go do: a line of base64 in, a line of JSON out, with what each way to
// read the body makes of it, or null if it refuses the body.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
)

type reading struct {
	Method    any `json:"method"`
	Name      any `json:"name"`
	URI       any `json:"uri"`
	TaskID    any `json:"taskId"`
	Arguments any `json:"arguments"`
}

type request struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      any             `json:"id"`
	Method  *string         `json:"method"`
	Params  json.RawMessage `json:"params"`
}

type params struct {
	Meta      map[string]any `json:"_meta"`
	Name      *string        `json:"name"`
	URI       *string        `json:"uri"`
	TaskID    *string        `json:"taskId"`
	Arguments map[string]any `json:"arguments"`
}

// Two structs, as SDKs have them: one for the message, and one for the parameters of a method.
func readStructs(unmarshal func([]byte, any) error) func([]byte) *reading {
	return func(body []byte) *reading {
		var message request
		var sent params
		if unmarshal(body, &message) != nil || message.JSONRPC != "2.0" {
			return nil
		}
		if message.Params != nil && unmarshal(message.Params, &sent) != nil {
			return nil
		}
		return &reading{orNil(message.Method), orNil(sent.Name), orNil(sent.URI), orNil(sent.TaskID), sent.Arguments}
	}
}

func orNil(text *string) any {
	if text == nil {
		return nil
	}
	return *text
}

func readMap(body []byte) *reading {
	var message map[string]any
	if json.Unmarshal(body, &message) != nil || message["jsonrpc"] != "2.0" {
		return nil
	}
	sent, _ := message["params"].(map[string]any)
	return &reading{message["method"], sent["name"], sent["uri"], sent["taskId"], sent["arguments"]}
}

// The first value of a stream, and numbers as they are written.
func decodeFirst(body []byte, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	return decoder.Decode(target)
}

func main() {
	ways := map[string]func([]byte) *reading{
		"structs": readStructs(json.Unmarshal),
		"stream":  readStructs(decodeFirst),
		"map":     readMap,
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	answers := json.NewEncoder(out)
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		body, _ := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(line)))
		answer := map[string]*reading{}
		for way, read := range ways {
			answer[way] = read(body)
		}
		if err := answers.Encode(answer); err != nil {
			panic(err)
		}
	}
}
