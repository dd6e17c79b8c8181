// A client of the MCP SDK for Go: its arguments and lines are those of agent.py.
package main

import (
	"context"
	"os"

	"gatehouse.test/agents/lines"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	ctx := context.Background()
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		ClientIDMetadataDocumentConfig: &auth.ClientIDMetadataDocumentConfig{URL: os.Args[2]},
		RedirectURL:                    "https://assistant.example/callback",
		AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			query, err := lines.Visit(args.URL)
			if err != nil {
				return nil, err
			}
			return &auth.AuthorizationResult{Code: query.Get("code"), State: query.Get("state"), Iss: query.Get("iss")}, nil
		},
	})
	lines.Check(err)
	client := mcp.NewClient(&mcp.Implementation{Name: "assistant", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: os.Args[1], OAuthHandler: handler}, nil)
	lines.Check(err)
	defer session.Close()
	lines.UseTools(func(name string) (string, error) {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name})
		if err != nil {
			return "", err
		}
		return result.Content[0].(*mcp.TextContent).Text, nil
	})
}
