import Fastify from 'fastify'
import t from 'tap'
import { sendPage } from '../../src/http/page.ts'

t.test(
  'a page goes out with headers that keep it from caches, frames and other sites',
  async (t) => {
    const app = Fastify()
    t.teardown(() => app.close())
    const page = { html: '<!doctype html>', policy: "default-src 'none'" }
    app.get('/', (_request, reply) => sendPage(reply, 403, page))
    const answer = await app.inject('/')
    t.equal(answer.statusCode, 403)
    t.equal(answer.body, page.html)
    t.match(answer.headers, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': page.policy,
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
      'x-robots-tag': 'noindex',
      'referrer-policy': 'same-origin',
    })
  },
)
