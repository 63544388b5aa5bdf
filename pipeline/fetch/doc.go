// Package fetch gets what a URL names that somebody else wrote: a client, or a model. It reaches nothing but the public internet.
// It imports pipeline; what it returns belongs to the caller.
//
// # Not obvious
//
//   - A name says nothing about where it leads, and may lead elsewhere a moment later. So the address is checked when the
//     connection is made, after every lookup and for every hop of a redirect, whatever way it was spelled.
//   - No proxy is asked, whatever the environment says: it would resolve the name out of sight.
//   - An error tells nothing about what is inside the network: a name that does not exist, one that leads inside, and a host that
//     does not answer look the same.
//
// # Files
//
//	fetch.go    Client
//	address.go  which addresses are public
package fetch
