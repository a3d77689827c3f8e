// Produces, consumes as a group that goes on where it was, and asks for offsets by time, with three clients, and asks
// what tools for monitoring ask: BOOTSTRAP. Prints one line per check and ends with 1 if one failed.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	firstTime = int64(1_700_000_000_000)
	records   = 20
	bound     = 60 * time.Second
)

// A client under test. Offsets are those of partition 0 of a topic with one partition.
type client interface {
	createTopic(ctx context.Context, topic string) error
	// produce sends v0..v19 with times one millisecond apart, half of them compressed.
	produce(ctx context.Context, topic string) error
	// produceSnappy sends these values, each in a batch of its own that is compressed with snappy.
	produceSnappy(ctx context.Context, topic string, values []string) error
	// consume reads that many as a member of the group and commits after them.
	consume(ctx context.Context, topic, group string, count int) ([]string, error)
	offsetAt(ctx context.Context, topic string, millis int64) (int64, error)
	// transact writes one record in a transaction.
	transact(ctx context.Context, topic string) error
}

var errNotThere = fmt.Errorf("the client has no such function")

func main() {
	failed := false
	for name, made := range map[string]client{
		"sarama":   newSarama(os.Args[1]),
		"kafka-go": newKafkaGo(os.Args[1]),
		"franz-go": newFranz(os.Args[1]),
	} {
		failed = run(name, made) || failed
	}
	failed = report("what kminion and Redpanda Console ask", func(ctx context.Context) error {
		return monitored(ctx, os.Args[1])
	}) || failed
	if failed {
		os.Exit(1)
	}
}

func run(name string, made client) (failed bool) {
	topic := fmt.Sprintf("go-%s-%d", name, time.Now().UnixNano())
	check := func(what string, body func(ctx context.Context) error) {
		failed = report(name+" "+what, body) || failed
	}
	check("creates a topic", func(ctx context.Context) error { return made.createTopic(ctx, topic) })
	check("produces", func(ctx context.Context) error { return made.produce(ctx, topic) })
	check("consumes as a group", func(ctx context.Context) error { return expect(made, ctx, topic, 0, 15) })
	check("goes on where the group was", func(ctx context.Context) error { return expect(made, ctx, topic, 15, 5) })
	check("offsets by time", func(ctx context.Context) error {
		for step, wanted := range map[int64]int64{0: 0, 7: 7, 19: 19} {
			found, err := made.offsetAt(ctx, topic, firstTime+step)
			if err != nil || found != wanted {
				return fmt.Errorf("at +%d: %d is expected, it is %d, %v", step, wanted, found, err)
			}
		}
		return nil
	})
	check("snappy, 1 byte and 200 kB", func(ctx context.Context) error { return snappy(made, ctx, topic+"-snappy") })
	check("writes in a transaction", func(ctx context.Context) error { return made.transact(ctx, topic) })
	return failed
}

// report runs a check and prints its line.
func report(name string, body func(ctx context.Context) error) (failed bool) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	switch err := body(ctx); {
	case err == nil:
		fmt.Printf("passed\t%s\n", name)
	case err == errNotThere:
		fmt.Printf("skipped\t%s\t%v\n", name, err)
	default:
		failed = true
		fmt.Printf("failed\t%s\t%s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return failed
}

// The dialects of snappy differ from client to client, and for large values from small ones: reported as nisshi#67,
// kafka-protocol-rs#79, kafka-backup#152.
func snappy(made client, ctx context.Context, topic string) error {
	values := []string{"x", strings.Repeat("0123456789", 20_000)}
	if err := made.createTopic(ctx, topic); err != nil {
		return err
	}
	if err := made.produceSnappy(ctx, topic, values); err != nil {
		return err
	}
	found, err := made.consume(ctx, topic, "group-"+topic, len(values))
	if err != nil {
		return err
	}
	for index, value := range found {
		if value != values[index] {
			return fmt.Errorf("record %d of %d bytes is another one, of %d bytes", index, len(values[index]), len(value))
		}
	}
	return nil
}

func expect(made client, ctx context.Context, topic string, first, count int) error {
	found, err := made.consume(ctx, topic, "group-"+topic, count)
	if err != nil {
		return err
	}
	for index, value := range found {
		if wanted := fmt.Sprintf("v%d", first+index); value != wanted {
			return fmt.Errorf("record %d: %s is expected, it is %s", index, wanted, value)
		}
	}
	return nil
}
