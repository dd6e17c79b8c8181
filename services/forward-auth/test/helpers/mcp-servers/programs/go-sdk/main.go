// A server of the SDK for Go with notes: its arguments are a port, and "stateless" or "sessions".
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	port, mode := os.Args[1], os.Args[2]
	notes := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	for name, text := range map[string]string{"read_note": "a note", "delete_note": "deleted"} {
		mcp.AddTool(notes, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			fmt.Println("ran", name)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		})
	}
	handler := mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return notes },
		&mcp.StreamableHTTPOptions{Stateless: mode == "stateless"},
	)
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+port, handler))
}
