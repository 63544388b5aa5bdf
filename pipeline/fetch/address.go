package fetch

import "net/netip"

// public reports whether addr is one of the public internet (IANA's special-purpose registries, RFC 6890 and its successors).
// An address that has another inside, for a translator to take out, counts as that one, or not at all.
func public(addr netip.Addr) bool {
	addr = addr.Unmap() // IPv4-mapped
	if addr.Zone() != "" || !addr.IsGlobalUnicast() || addr.IsPrivate() {
		return false
	}
	if nat64.Contains(addr) {
		b := addr.As16()
		return public(netip.AddrFrom4([4]byte(b[12:])))
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return false
	}
	for _, p := range special {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96") // how a network without IPv4 reaches the public hosts that have nothing else
)

// special are the networks that netip does not know to be none of the public internet.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),        // this network
	netip.MustParsePrefix("100.64.0.0/10"),    // behind a carrier's NAT; metadata of some clouds
	netip.MustParsePrefix("168.63.129.16/32"), // services of Azure for its machines
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments; metadata of some clouds
	netip.MustParsePrefix("192.0.2.0/24"),     // documentation
	netip.MustParsePrefix("192.88.99.0/24"),   // 6to4 relays
	netip.MustParsePrefix("198.18.0.0/15"),    // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"),  // documentation
	netip.MustParsePrefix("203.0.113.0/24"),   // documentation
	netip.MustParsePrefix("240.0.0.0/4"),      // reserved
	netip.MustParsePrefix("2001::/23"),        // protocol assignments, Teredo among them
	netip.MustParsePrefix("2001:db8::/32"),    // documentation
	netip.MustParsePrefix("2002::/16"),        // 6to4
	netip.MustParsePrefix("3fff::/20"),        // documentation
}
