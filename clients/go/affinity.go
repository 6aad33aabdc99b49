package sessiond

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/grpc/metadata"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// affinityKey is a hint for load balancers, which can hash it to keep the calls of a user on one replica. The server does not
// read it.
const affinityKey = "sessiond-affinity"

// withAffinity adds the hint of a request, unless the caller has set one.
func withAffinity(ctx context.Context, request any) context.Context {
	owner := request
	switch owned := request.(type) {
	case interface{ GetScope() *pb.Scope }:
		owner = owned.GetScope()
	case interface{ GetKey() *pb.SessionKey }:
		owner = owned.GetKey()
	}
	named, ok := owner.(interface {
		GetAppName() string
		GetUserId() string
	})
	sent, _ := metadata.FromOutgoingContext(ctx)
	if !ok || named.GetAppName() == "" || len(sent.Get(affinityKey)) > 0 {
		return ctx
	}
	hash := sha256.Sum256([]byte(named.GetAppName() + "\x00" + named.GetUserId()))
	return metadata.AppendToOutgoingContext(ctx, affinityKey, hex.EncodeToString(hash[:8]))
}
