import { request } from 'node:http'
import { listenForChallenges } from '@gatehouse/issuance/issuers'
import t from 'tap'
import { freePort } from '../../../scripts/free-ports.ts'
import { buildPlainApp } from '../src/app.ts'
import { post, startAcme } from './helpers/acme.ts'

t.test(
  'an answer to http-01 is given by the plain listener, and by a listener of its own',
  async (t) => {
    const seen: (string | undefined)[] = []
    const { running } = await startAcme(t, {
      validate: async ({ token, keyAuthorization }) => {
        const path = `/.well-known/acme-challenge/${token}`
        const { payload, statusCode, headers } = await plain.inject(path)
        t.match(headers['content-type'], /octet-stream/)
        seen.push(statusCode === 200 ? payload : undefined, await read(path), keyAuthorization)
        return undefined
      },
    })
    const { service } = running
    const plain = await buildPlainApp(running.app, { log: running.app.log as never })
    t.teardown(() => plain.close())
    const port = await freePort()
    const listener = await listenForChallenges(
      [{ challenges: [{ type: 'http-01', listen: { host: '127.0.0.1', port } }] }],
      service.challenges,
      running.clock,
    )
    t.teardown(() => listener.close())
    const read = (path: string) =>
      new Promise<string>((resolve) => {
        request({ port, path, host: '127.0.0.1' }, async (response) =>
          resolve(Buffer.concat(await response.toArray()).toString()),
        ).end()
      })

    t.equal((await post(running)).status, 200)
    t.equal(seen.length, 3)
    t.equal(new Set(seen).size, 1, 'both say what the CA wants to see')
    t.equal(
      (await plain.inject('/.well-known/acme-challenge/abcdefghijklmnopqrstuv')).statusCode,
      404,
    )
    t.equal((await plain.inject('/api/certificates')).statusCode, 404)
  },
)
