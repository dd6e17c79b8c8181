// The go.mod with which .ci/run builds Traefik for the tests: 3.7 cannot be built as a Go module.
module gatehouse/traefik

go 1.26

require github.com/traefik/traefik/v3 v3.6.13

// As in Traefik's own go.mod, whose replacements do not count in another module.
replace (
	github.com/abbot/go-http-auth => github.com/containous/go-http-auth v0.4.1-0.20200324110947-a37a7636d23e
	github.com/gorilla/mux => github.com/containous/mux v0.0.0-20250523120546-41b6ec3aed59
	github.com/mailgun/minheap => github.com/containous/minheap v0.0.0-20190809180810-6e71eb837595
)

exclude github.com/tencentcloud/tencentcloud-sdk-go v3.0.83+incompatible
