// A server of mcp-go with notes: its arguments are a port, and "stateless" or "sessions".
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	port, mode := os.Args[1], os.Args[2]
	notes := server.NewMCPServer("notes", "1.0.0")
	for name, text := range map[string]string{"read_note": "a note", "delete_note": "deleted"} {
		notes.AddTool(mcp.NewTool(name), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			fmt.Println("ran", name)
			return mcp.NewToolResultText(text), nil
		})
	}
	var options []server.StreamableHTTPOption
	if mode == "stateless" {
		options = append(options, server.WithStateLess(true))
	}
	handler := server.NewStreamableHTTPServer(notes, options...)
	fmt.Fprintln(os.Stderr, handler.Start("127.0.0.1:"+port))
}
