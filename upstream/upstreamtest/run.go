package upstreamtest

import (
	"testing"

	"go.uber.org/goleak"
)

// suite is a run for one dialect.
type suite struct{ d *Dialect }

// section is a part of the suite.
type section struct {
	name   string
	needs  []Feature
	serial bool // it changes the environment
	run    func(s *suite, t *testing.T)
}

var sections = []section{
	{"Text", nil, false, (*suite).testText},
	{"Calls", nil, false, (*suite).testCalls},
	{"InterleavedCalls", []Feature{Interleaved}, false, (*suite).testInterleavedCalls},
	{"Usage", nil, false, (*suite).testUsage},
	{"UsageTable", nil, false, (*suite).testUsageTable},
	{"Cost", []Feature{Cost}, false, (*suite).testCost},
	{"FinishTable", nil, false, (*suite).testFinishTable},
	{"Ends", nil, false, (*suite).testEnds},
	{"SplitAtEveryByte", nil, false, (*suite).testSplit},

	{"Request", []Feature{Requests}, false, (*suite).testRequest},
	{"FailedResults", []Feature{Requests, FailedResults}, false, (*suite).testFailedResults},
	{"SideBySide", []Feature{Requests}, false, (*suite).testSideBySide},

	{"ErrorsInAnswers", nil, false, (*suite).testErrorsInAnswers},
	{"Broken", nil, false, (*suite).testBroken},
	{"ErrorTable", []Feature{Refusals}, false, (*suite).testErrorTable},
	{"Refusals", []Feature{Refusals}, false, (*suite).testRefusals},
	{"OnTheWay", []Feature{Cuts}, false, (*suite).testConnectionFaults},

	{"Cancel", []Feature{Connections}, false, (*suite).testCancel},
	{"ConsumerStops", []Feature{Connections}, false, (*suite).testConsumerStops},
	{"Silence", []Feature{Connections}, false, (*suite).testSilence},
	{"IdleLimit", []Feature{Connections}, false, (*suite).testIdleLimit},

	{"AskedAgain", []Feature{Connections}, false, (*suite).testAskedAgain},
	{"AskedOnce", []Feature{Connections}, false, (*suite).testAskedOnce},

	{"Framings", nil, false, (*suite).testFramings},
	{"Encodings", []Feature{Refusals}, false, (*suite).testEncodings},
	{"Reuse", []Feature{Connections}, false, (*suite).testReuse},
	{"TLS", []Feature{Connections}, false, (*suite).testTLS},
	{"Proxies", []Feature{Connections}, true, (*suite).testProxies},
}

// Run holds a provider to the suite. The test that calls it must not be parallel, as a part of it sets the environment. No goroutine
// outlives it.
func Run(t *testing.T, d Dialect) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	s := &suite{d: &d}
	for _, c := range sections {
		t.Run(c.name, func(t *testing.T) {
			for _, f := range c.needs {
				s.needs(t, f)
			}
			if !c.serial {
				t.Parallel()
			}
			c.run(s, t)
		})
	}
}

// needs skips a test whose feature is lacking, and says why.
func (s *suite) needs(t *testing.T, f Feature) {
	t.Helper()
	if why, lacks := s.d.Lacks[f]; lacks {
		t.Skipf("no %s: %s", f, why)
	}
}
