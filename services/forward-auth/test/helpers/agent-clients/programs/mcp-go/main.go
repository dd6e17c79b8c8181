// A client of mcp-go: its arguments and lines are those of agent.py.
package main

import (
	"context"
	"os"

	"gatehouse.test/agents/lines"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// authorized does something, once more after the person was asked if the library says that this is necessary.
func authorized(ctx context.Context, work func() error) error {
	err := work()
	handler := client.GetOAuthHandler(err)
	if handler == nil {
		return err
	}
	verifier, err := client.GenerateCodeVerifier()
	if err != nil {
		return err
	}
	state, err := client.GenerateState()
	if err != nil {
		return err
	}
	target, err := handler.GetAuthorizationURL(ctx, state, client.GenerateCodeChallenge(verifier))
	if err != nil {
		return err
	}
	query, err := lines.Visit(target)
	if err != nil {
		return err
	}
	if err := handler.ProcessAuthorizationResponse(ctx, query.Get("code"), query.Get("state"), verifier); err != nil {
		return err
	}
	return work()
}

func main() {
	ctx := context.Background()
	agent, err := client.NewOAuthStreamableHttpClient(os.Args[1], client.OAuthConfig{
		ClientID:    os.Args[2],
		RedirectURI: "https://assistant.example/callback",
		PKCEEnabled: true,
		// It takes none from what the server says, so whoever writes a program names those of all its tools.
		Scopes: []string{"notes:read", "notes:write"},
	})
	lines.Check(err)
	lines.Check(agent.Start(ctx))
	defer agent.Close()
	about := mcp.InitializeRequest{}
	about.Params.ClientInfo = mcp.Implementation{Name: "assistant", Version: "1.0.0"}
	lines.Check(authorized(ctx, func() error {
		_, err := agent.Initialize(ctx, about)
		return err
	}))
	lines.UseTools(func(name string) (text string, err error) {
		err = authorized(ctx, func() error {
			request := mcp.CallToolRequest{}
			request.Params.Name = name
			result, err := agent.CallTool(ctx, request)
			if err != nil {
				return err
			}
			text = mcp.GetTextFromContent(result.Content[0])
			return nil
		})
		return text, err
	})
}
