package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franzClient struct{ bootstrap string }

func newFranz(bootstrap string) client { return &franzClient{bootstrap: bootstrap} }

func (c *franzClient) client(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.bootstrap)}, more...)...)
}

func (c *franzClient) createTopic(ctx context.Context, topic string) error {
	made, err := c.client()
	if err != nil {
		return err
	}
	defer made.Close()
	_, err = kadm.NewClient(made).CreateTopic(ctx, 1, 1, nil, topic)
	return err
}

func (c *franzClient) produce(ctx context.Context, topic string) error {
	for half, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.ZstdCompression()} {
		made, err := c.client(kgo.ProducerBatchCompression(codec))
		if err != nil {
			return err
		}
		var batch []*kgo.Record
		for step := half * records / 2; step < (half+1)*records/2; step++ {
			record := kgo.KeyStringRecord(fmt.Sprintf("k%d", step), fmt.Sprintf("v%d", step))
			record.Topic, record.Timestamp = topic, time.UnixMilli(firstTime+int64(step))
			batch = append(batch, record)
		}
		err = made.ProduceSync(ctx, batch...).FirstErr()
		made.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *franzClient) produceSnappy(ctx context.Context, topic string, values []string) error {
	made, err := c.client(kgo.ProducerBatchCompression(kgo.SnappyCompression()))
	if err != nil {
		return err
	}
	defer made.Close()
	for _, value := range values {
		record := kgo.StringRecord(value)
		record.Topic = topic
		if err := made.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

func (c *franzClient) consume(ctx context.Context, topic, group string, count int) ([]string, error) {
	made, err := c.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer made.Close()
	var values []string
	for len(values) < count {
		fetches := made.PollRecords(ctx, count-len(values))
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for _, record := range fetches.Records() {
			values = append(values, string(record.Value))
		}
		if err := made.CommitRecords(ctx, fetches.Records()...); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (c *franzClient) offsetAt(ctx context.Context, topic string, millis int64) (int64, error) {
	made, err := c.client()
	if err != nil {
		return 0, err
	}
	defer made.Close()
	found, err := kadm.NewClient(made).ListOffsetsAfterMilli(ctx, millis, topic)
	if err != nil {
		return 0, err
	}
	offset, _ := found.Lookup(topic, 0)
	return offset.Offset, offset.Err
}

func (c *franzClient) transact(ctx context.Context, topic string) error {
	made, err := c.client(kgo.TransactionalID("franz-" + topic))
	if err != nil {
		return err
	}
	defer made.Close()
	if err := made.BeginTransaction(); err != nil {
		return err
	}
	record := kgo.StringRecord("in a transaction")
	record.Topic = topic
	if err := made.ProduceSync(ctx, record).FirstErr(); err != nil {
		return err
	}
	return made.EndTransaction(ctx, kgo.TryCommit)
}
