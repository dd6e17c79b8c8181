import { generateP256 } from '@gatehouse/pki'
import t from 'tap'
import { startAcme } from '../helpers/acme-service.ts'
import { DAY, NOW } from '../helpers/app.ts'

const names = ['a.example.com']

t.test('the certificate of a key is given again until it is due', async (t) => {
  const { client, clock } = await startAcme(t)
  const key = generateP256()
  const obtain = async () => (await client.obtain(names, {}, key))[0]
  const first = await obtain()
  await clock.advance(DAY)
  t.strictSame(await obtain(), first, 'it is not due yet')
  await clock.advance(3 * DAY)
  const second = await obtain()
  t.notSame(second, first, 'it is due')
  t.strictSame(await obtain(), second)
})

t.test('one that ends when it has to is given again although it is due', async (t) => {
  const { client, clock } = await startAcme(t)
  const key = generateP256()
  const notAfter = new Date(NOW + 6 * DAY).toISOString()
  const obtain = async () => (await client.obtain(names, { notAfter }, key))[0]
  const first = await obtain()
  await clock.advance(5 * DAY)
  t.strictSame(await obtain(), first)
})
