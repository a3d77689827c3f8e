// franz-go with right, wrong and no credentials: PLAIN_PORT TLS_PORT CERTIFICATE_PORT DIRECTORY. Prints one line per
// check and ends with 1 if one failed.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	bound        = 60 * time.Second
	refusedBound = 5 * time.Second
	records      = 10
)

var failed bool

func main() {
	plainPort, tlsPort, certificatePort, directory := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	authorities, err := os.ReadFile(directory + "/ca.pem")
	exitOn(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authorities)
	identity, err := tls.LoadX509KeyPair(directory+"/client.pem", directory+"/client.key")
	exitOn(err)
	withTLS := func(certificates ...tls.Certificate) kgo.Opt {
		return kgo.DialTLSConfig(&tls.Config{RootCAs: pool, Certificates: certificates})
	}
	mechanisms := map[string]func(password string) sasl.Mechanism{
		"PLAIN": func(password string) sasl.Mechanism { return plain.Auth{User: "admin", Pass: password}.AsMechanism() },
		"SCRAM-SHA-256": func(password string) sasl.Mechanism {
			return scram.Auth{User: "admin", Pass: password}.AsSha256Mechanism()
		},
		"SCRAM-SHA-512": func(password string) sasl.Mechanism {
			return scram.Auth{User: "admin", Pass: password}.AsSha512Mechanism()
		},
	}
	for name, mechanism := range mechanisms {
		check(name, roundTrip(kgo.SeedBrokers(plainPort), kgo.SASL(mechanism("pencil"))))
		check(name+" over TLS", roundTrip(kgo.SeedBrokers(tlsPort), kgo.SASL(mechanism("pencil")), withTLS()))
		err := request(kgo.SeedBrokers(plainPort), kgo.SASL(mechanism("pen")))
		if !errors.Is(err, kerr.SaslAuthenticationFailed) {
			check(name+" with a wrong password", fmt.Errorf("it ended with: %v", err))
		} else {
			check(name+" with a wrong password", nil)
		}
	}
	check("certificate", roundTrip(kgo.SeedBrokers(certificatePort), withTLS(identity)))
	check("no certificate", refused(request(kgo.SeedBrokers(certificatePort), withTLS())))
	check("no credentials", refused(request(kgo.SeedBrokers(plainPort))))
	if failed {
		os.Exit(1)
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(name string, err error) {
	if err == nil {
		fmt.Printf("passed\tfranz-go %s\n", name)
		return
	}
	failed = true
	fmt.Printf("failed\tfranz-go %s\t%s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
}

func refused(err error) error {
	if err == nil {
		return errors.New("it was let in")
	}
	return nil
}

func request(options ...kgo.Opt) error {
	ctx, cancel := context.WithTimeout(context.Background(), refusedBound)
	defer cancel()
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Ping(ctx)
}

func roundTrip(options ...kgo.Opt) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	topic := fmt.Sprintf("franz-%d", time.Now().UnixNano())
	more := []kgo.Opt{kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100 * time.Millisecond)}
	client, err := kgo.NewClient(append(more, options...)...)
	if err != nil {
		return err
	}
	defer client.Close()
	for step := range records {
		record := kgo.StringRecord(fmt.Sprintf("v%d", step))
		record.Topic = topic
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	for found := 0; found < records; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			if wanted := fmt.Sprintf("v%d", found); string(record.Value) != wanted {
				return fmt.Errorf("record %d: %s is expected, it is %s", found, wanted, record.Value)
			}
			found++
		}
	}
	return nil
}
