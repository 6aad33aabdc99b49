package sessiond

import (
	"slices"
	"sync"

	"google.golang.org/grpc"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// watchesPerConnection leaves room for calls: a server allows 256 streams on a connection, and whatever is begun beyond
// them waits in silence until one ends.
const watchesPerConnection = 200

// connections are those of a service. The first one has all calls and the first watches; each further one has watches
// only, and is closed after its last.
type connections struct {
	first *grpc.ClientConn
	// dial makes a further one, which connects at its first call. gRPC shares no TCP connection between two of them.
	dial func() (*grpc.ClientConn, error)

	mu sync.Mutex
	// open begins with the first one.
	open []*connection
}

type connection struct {
	*grpc.ClientConn
	watches int
}

func newConnections(target string, options []grpc.DialOption) (*connections, error) {
	dial := func() (*grpc.ClientConn, error) { return grpc.NewClient(target, options...) }
	first, err := dial()
	if err != nil {
		return nil, err
	}
	return &connections{first: first, dial: dial, open: []*connection{{ClientConn: first}}}, nil
}

// forWatch returns a client with room for one more watch, and the function to call at the end of that watch.
func (c *connections) forWatch() (pb.WatchServiceClient, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.open, func(one *connection) bool { return one.watches < watchesPerConnection })
	if at < 0 {
		added, err := c.dial()
		if err != nil {
			return nil, nil, err
		}
		at = len(c.open)
		c.open = append(c.open, &connection{ClientConn: added})
	}
	taken := c.open[at]
	taken.watches++
	return pb.NewWatchServiceClient(taken), func() { c.endWatch(taken) }, nil
}

func (c *connections) endWatch(of *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of.watches--
	if at := slices.Index(c.open, of); at > 0 && of.watches == 0 {
		c.open = slices.Delete(c.open, at, at+1)
		// The only error is that close was faster.
		_ = of.Close()
	}
}

// close closes all of them. Watches that are still open end.
func (c *connections) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, further := range c.open[1:] {
		_ = further.Close()
	}
	return c.first.Close()
}
