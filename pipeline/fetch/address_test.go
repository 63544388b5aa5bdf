package fetch

import (
	"net/netip"
	"testing"
)

func TestPublic(t *testing.T) {
	for s, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "9.255.255.255": true, "11.0.0.0": true, "100.63.255.255": true, "100.128.0.0": true,
		"172.15.255.255": true, "172.32.0.0": true, "192.167.255.255": true, "198.17.255.255": true, "198.20.0.0": true, "223.255.255.255": true,
		"2606:4700:4700::1111": true, "2a00::1": true, "2001:4860:4860::8888": true, "::ffff:8.8.8.8": true, "64:ff9b::8.8.8.8": true,

		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "10.255.255.255": false, "100.64.0.0": false, "100.100.100.200": false, "100.127.255.255": false,
		"127.0.0.1": false, "127.255.255.254": false, "168.63.129.16": false, "169.254.169.254": false, "169.254.0.1": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.0.0.192": false, "192.0.2.1": false, "192.88.99.1": false, "192.168.0.1": false, "198.18.0.1": false, "198.19.255.255": false, "198.51.100.7": false,
		"203.0.113.9": false, "224.0.0.1": false, "239.255.255.255": false, "240.0.0.1": false, "255.255.255.255": false,

		"::": false, "::1": false, "::7f00:1": false, "::8.8.8.8": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:0:127.0.0.1": false,
		"64:ff9b::127.0.0.1": false, "64:ff9b::10.0.0.1": false, "64:ff9b::169.254.169.254": false, "64:ff9b:1::8.8.8.8": false, "100::1": false,
		"2001::1": false, "2001:0:8.8.8.8::": false, "2001:2::1": false, "2001:db8::1": false, "2002:7f00:1::": false, "2002:808:808::": false, "3fff::1": false, "4000::1": false, "5f00::1": false,
		"fc00::1": false, "fd00:ec2::254": false, "fe80::1": false, "fe80::1%eth0": false, "fec0::1": false, "ff02::1": false, "2606:4700::1%eth0": false,
	} {
		if addr, err := netip.ParseAddr(s); err == nil && public(addr) != want {
			t.Errorf("%s: public is %v", s, !want)
		} else if err != nil && want {
			t.Errorf("%s: %v", s, err)
		}
	}
	if public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// FuzzPublic: an address that holds another in one of the known ways is no more public than that.
func FuzzPublic(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{169, 254, 169, 254})
	f.Add([]byte{8, 8, 8, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != 4 {
			return
		}
		v4 := netip.AddrFrom4([4]byte(b))
		for name, prefix := range map[string][]byte{
			"mapped": {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, "compatible": {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
			"NAT64": {0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0}, "translated": {0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0},
			"6to4": append([]byte{0x20, 0x02}, append(b[:4:4], 0, 0, 0, 0, 0, 0)...), "Teredo": append([]byte{0x20, 1, 0, 0}, append(b[:4:4], 0, 0, 0, 0)...),
		} {
			if v6 := netip.AddrFrom16([16]byte(append(prefix[:12:12], b...))); public(v6) && !public(v4) {
				t.Errorf("%s %s is public, %s is not", name, v6, v4)
			}
		}
	})
}
