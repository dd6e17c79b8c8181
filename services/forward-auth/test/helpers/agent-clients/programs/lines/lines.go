// Package lines speaks to the test by one line each: see agent.py.
package lines

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
)

var stdin = bufio.NewScanner(os.Stdin)

func say(name string, word any) {
	line, err := json.Marshal(map[string]any{name: word})
	Check(err)
	fmt.Println(string(line))
}

func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Visit sends a person to a URL: the query with which they come back.
func Visit(target string) (url.Values, error) {
	say("visit", target)
	stdin.Scan()
	back, err := url.Parse(stdin.Text())
	if err != nil {
		return nil, err
	}
	return back.Query(), nil
}

// UseTools calls the tools that it is told to.
func UseTools(call func(name string) (string, error)) {
	say("connected", true)
	for stdin.Scan() {
		if text, err := call(stdin.Text()); err != nil {
			say("error", err.Error())
		} else {
			say("text", text)
		}
	}
}
