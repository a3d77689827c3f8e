// Produces, consumes as a group that goes on where it was, and asks for offsets by time:
// BOOTSTRAP kafkajs|platformatic. Prints one line per check and ends with 1 if one failed.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'

const T = 1_700_000_000_000
const BOUND_MILLISECONDS = 60_000
const [bootstrap, client] = process.argv.slice(2)
const topic = `node-${client}-${randomUUID()}`
let failed = false

async function check(name, body) {
  try {
    await bounded(body(), name)
    console.log(`passed\t${client} ${name}`)
  } catch (error) {
    failed = true
    console.log(`failed\t${client} ${name}\t${String(error.message ?? error).split('\n')[0]}`)
  }
}

function bounded(promise, name) {
  const late = new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`${name} takes more than ${BOUND_MILLISECONDS} ms`)), BOUND_MILLISECONDS).unref()
  })
  return Promise.race([promise, late])
}

const records = Array.from({ length: 20 }, (_, step) => ({ key: `k${step}`, value: `v${step}`, time: T + step }))
const expected = records.map(record => record.value)

async function kafkajs() {
  const { default: library } = await import('kafkajs')
  const kafka = new library.Kafka({ clientId: 'check', brokers: [bootstrap], logLevel: library.logLevel.ERROR })
  const admin = kafka.admin()
  await admin.connect()
  await check('creates a topic', async () => {
    assert.equal(await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] }), true)
  })
  for (const [name, compression] of [['none', library.CompressionTypes.None], ['gzip', library.CompressionTypes.GZIP]]) {
    await check(`produces with ${name}`, async () => {
      const producer = kafka.producer({ idempotent: name === 'none' })
      await producer.connect()
      const messages = records.map(({ key, value, time }) => ({ key, value, timestamp: String(time), headers: { h: 'x' } }))
      const half = name === 'none' ? messages.slice(0, 10) : messages.slice(10)
      await producer.send({ topic, messages: half, compression, acks: -1 })
      await producer.disconnect()
    })
  }
  const read = count => kafkajsRead(kafka, count)
  await check('consumes as a group', async () => assert.deepEqual(await read(15), expected.slice(0, 15)))
  await check('goes on where the group was', async () => assert.deepEqual(await read(5), expected.slice(15)))
  await check('offsets by time', async () => {
    assert.equal((await admin.fetchTopicOffsetsByTimestamp(topic, T + 7))[0].offset, '7')
    assert.equal((await admin.fetchTopicOffsetsByTimestamp(topic, T + 100))[0].offset, '20')
  })
  await check('describes the group', async () => {
    const { groups } = await admin.describeGroups(['node-' + topic])
    assert.equal(groups[0].state, 'Empty')
  })
  await check('writes in a transaction', async () => {
    const producer = kafka.producer({ transactionalId: topic, maxInFlightRequests: 1, idempotent: true })
    await producer.connect()
    const transaction = await producer.transaction()
    await transaction.send({ topic, messages: [{ value: 'in a transaction' }] })
    await transaction.commit()
    await producer.disconnect()
  })
  await admin.disconnect()
}

async function kafkajsRead(kafka, count) {
  const consumer = kafka.consumer({ groupId: 'node-' + topic, sessionTimeout: 10_000, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const values = []
  await new Promise(resolve => {
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ message, partition }) => {
        if (values.length === count) return
        values.push(message.value.toString())
        if (values.length < count) return
        await consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }])
        resolve()
      }
    })
  })
  await consumer.disconnect()
  return values
}

async function platformatic() {
  const library = await import('@platformatic/kafka')
  const options = { clientId: 'check', bootstrapBrokers: [bootstrap] }
  const admin = new library.Admin(options)
  await check('creates a topic', async () => {
    const [created] = await admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 })
    assert.equal(created.name, topic)
  })
  for (const compression of ['none', 'gzip']) {
    await check(`produces with ${compression}`, async () => {
      const producer = new library.Producer({ ...options, serializers: library.stringSerializers, compression, idempotent: true })
      const half = compression === 'none' ? records.slice(0, 10) : records.slice(10)
      await producer.send({ messages: half.map(({ key, value, time }) => ({ topic, key, value, timestamp: BigInt(time), headers: { h: 'x' } })) })
      await producer.close()
    })
  }
  const read = (count, more) => platformaticRead(library, options, count, more)
  await check('consumes as a group', async () => assert.deepEqual(await read(15), expected.slice(0, 15)))
  await check('goes on where the group was', async () => assert.deepEqual(await read(5), expected.slice(15)))
  await check('consumes as a group of the newer protocol', async () => {
    assert.deepEqual(await read(20, { groupId: 'newer-' + topic, groupProtocol: 'consumer' }), expected)
  })
  await check('offsets by time', async () => {
    const consumer = new library.Consumer({ ...options, groupId: 'times-' + topic })
    const offsets = await consumer.listOffsets({ topics: [topic], timestamp: BigInt(T + 7) })
    assert.deepEqual(offsets.get(topic), [7n])
    await consumer.close()
  })
  await check('describes the group', async () => {
    const groups = await admin.describeGroups({ groups: ['node-' + topic] })
    assert.equal(groups.get('node-' + topic).state.toLowerCase(), 'empty')
  })
  await check('writes in a transaction', async () => {
    const producer = new library.Producer({ ...options, serializers: library.stringSerializers, transactionalId: topic, idempotent: true })
    const transaction = await producer.beginTransaction()
    await transaction.send({ messages: [{ topic, value: 'in a transaction' }] })
    await transaction.commit()
    await producer.close()
  })
  await admin.close()
}

async function platformaticRead(library, options, count, more = {}) {
  const consumer = new library.Consumer({
    ...options, groupId: 'node-' + topic, deserializers: library.stringDeserializers, sessionTimeout: 10_000, maxWaitTime: 100, ...more
  })
  const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest', autocommit: false })
  const values = []
  for await (const message of stream) {
    values.push(message.value)
    if (values.length < count) continue
    await message.commit()
    break
  }
  await consumer.close(true)
  return values
}

await { kafkajs, platformatic }[client]()
process.exit(failed ? 1 : 0)
