package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

type saramaClient struct{ brokers []string }

func newSarama(bootstrap string) client { return &saramaClient{brokers: []string{bootstrap}} }

func (c *saramaClient) settings() *sarama.Config {
	settings := sarama.NewConfig()
	settings.Version = sarama.MaxVersion
	settings.Producer.Return.Successes = true
	settings.Producer.RequiredAcks = sarama.WaitForAll
	settings.Producer.Partitioner = sarama.NewManualPartitioner
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	settings.Consumer.Offsets.AutoCommit.Enable = false
	settings.Consumer.MaxWaitTime = 100 * time.Millisecond
	return settings
}

func (c *saramaClient) createTopic(_ context.Context, topic string) error {
	admin, err := sarama.NewClusterAdmin(c.brokers, c.settings())
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false)
}

func (c *saramaClient) produce(_ context.Context, topic string) error {
	codecs := []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionZSTD}
	for half, codec := range codecs {
		settings := c.settings()
		settings.Producer.Compression = codec
		settings.Producer.Idempotent = true
		settings.Net.MaxOpenRequests = 1
		producer, err := sarama.NewSyncProducer(c.brokers, settings)
		if err != nil {
			return err
		}
		var messages []*sarama.ProducerMessage
		for step := half * records / 2; step < (half+1)*records/2; step++ {
			messages = append(messages, &sarama.ProducerMessage{
				Topic:     topic,
				Key:       sarama.StringEncoder(fmt.Sprintf("k%d", step)),
				Value:     sarama.StringEncoder(fmt.Sprintf("v%d", step)),
				Timestamp: time.UnixMilli(firstTime + int64(step)),
			})
		}
		err = errors.Join(producer.SendMessages(messages), producer.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *saramaClient) produceSnappy(_ context.Context, topic string, values []string) error {
	settings := c.settings()
	settings.Producer.Compression = sarama.CompressionSnappy
	producer, err := sarama.NewSyncProducer(c.brokers, settings)
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, value := range values {
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)}); err != nil {
			return err
		}
	}
	return nil
}

type saramaReader struct {
	wanted int
	values []string
	done   context.CancelFunc
}

func (*saramaReader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*saramaReader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *saramaReader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			r.values = append(r.values, string(message.Value))
			if len(r.values) == r.wanted {
				session.MarkMessage(message, "")
				session.Commit()
				r.done()
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (c *saramaClient) consume(ctx context.Context, topic, group string, count int) ([]string, error) {
	consumer, err := sarama.NewConsumerGroup(c.brokers, group, c.settings())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	reader := &saramaReader{wanted: count, done: cancel}
	for len(reader.values) < count {
		if err := consumer.Consume(inner, []string{topic}, reader); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return reader.values, nil
}

func (c *saramaClient) offsetAt(_ context.Context, topic string, millis int64) (int64, error) {
	made, err := sarama.NewClient(c.brokers, c.settings())
	if err != nil {
		return 0, err
	}
	defer made.Close()
	return made.GetOffset(topic, 0, millis)
}

func (c *saramaClient) transact(_ context.Context, topic string) error {
	settings := c.settings()
	settings.Producer.Idempotent = true
	settings.Producer.Transaction.ID = "sarama-" + topic
	settings.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(c.brokers, settings)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("in a transaction")}
	if _, _, err := producer.SendMessage(message); err != nil {
		return err
	}
	return producer.CommitTxn()
}
