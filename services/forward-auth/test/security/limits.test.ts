import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { TICKETS } from '../../src/sign-in/sign-in-rate.ts'

import { EVENTS, TABLES } from '../../src/store/tables.ts'
import { portalOf, yamlOf } from '../app.ts'
import { signIn, signInUrl, start, ticketIn, WANTED } from '../portal/kit.ts'

/** What keeps one person, or whoever is not known yet, from filling a table: tests that fail without it. */
const LIMITS: Readonly<Record<string, readonly string[]>> = {
  sessions: [
    'security/limits.test.ts: one account cannot fill the store by signing in',
    'security/limits.test.ts: nor can one that the portal does not admit',
    // Of agents: each is a code, and each of its changes is a token.
    'oauth/authorize.test.ts: what a person allows is stored at a bounded rate',
    'oauth/token.test.ts: a client that renews again and again has to wait',
  ],
  visits: ['store/sessions.test.ts: the newest are listed first, with their hosts'],
  // Of a sign-in, and of whom a provider names in a token that it has signed.
  marks: ['security/limits.test.ts: one account cannot fill the store by signing in'],
  events: [
    'security/limits.test.ts: one account cannot fill the store by tickets that it loses',
    'security/limits.test.ts: one account cannot fill the store by signing in',
    'oauth/token.test.ts: a client that renews again and again has to wait',
  ],
  completed: [
    'security/limits.test.ts: one account cannot fill the store by signing in',
    'security/limits.test.ts: nor can one that the portal does not admit',
    'oauth/authorize.test.ts: what a person allows is stored at a bounded rate',
  ],
  consents: ['oauth/authorize.test.ts: what a person allows is stored at a bounded rate'],
  approvals: ['store/approvals.test.ts: five calls of an agent wait, and twenty of a person'],
  // One for each question.
  outbox: [
    'approvals/approvals.test.ts: an agent that floods has five questions, and its person twenty',
  ],
  // One of each name.
  secrets: ['store/store.test.ts: instances that start at once have the same secret'],
  audit: [
    'audit/row-limit.test.ts: who invents hosts or addresses gets one row for all further ones',
    'audit/row-limit.test.ts: however many persons there are, the rows of an hour are limited',
  ],
}

t.test('nothing durable is made without a limit', async (t) => {
  t.strictSame(Object.keys(LIMITS).sort(), TABLES.map(({ name }) => name).sort())
  for (const tests of Object.values(LIMITS))
    for (const test of tests) {
      const [file = '', name = ''] = test.split(': ')
      t.ok(readFileSync(join(import.meta.dirname, '..', file), 'utf8').includes(name), test)
    }
})

/** How often what makes rows was asked for. */
function countWrites({ app }: Awaited<ReturnType<typeof start>>) {
  const counts = { beginSession: 0, completeLogin: 0, tell: 0 }
  const { authStore } = app
  for (const name of Object.keys(counts) as (keyof typeof counts)[]) {
    const write = authStore[name].bind(authStore) as (...args: unknown[]) => unknown
    Object.assign(authStore, {
      [name]: (...args: unknown[]) => {
        counts[name] += 1
        return write(...args)
      },
    })
  }
  return counts
}

/** Signs somebody in from as many browsers. */
async function signInOften(t: Test, times: number, yaml = yamlOf(portalOf('main'))) {
  const test = await start(t, { yaml })
  const counts = countWrites(test)
  for (let i = 0; i < times; i++) await signIn(test.visitor(), test.corp, 'ada', signInUrl({}))
  return counts
}

t.test('one account cannot fill the store by signing in', async (t) => {
  t.match(await signInOften(t, 62), { beginSession: 60, completeLogin: 60 })
})

t.test('nor can one that the portal does not admit', async (t) => {
  const yaml = yamlOf(portalOf('main', `allow: 'Group("staff")'`))
  t.match(await signInOften(t, 62, yaml), { beginSession: 0, completeLogin: 0 })
})

t.test('one account cannot fill the store by tickets that it loses', async (t) => {
  const test = await start(t, { yaml: yamlOf(portalOf('main')) })
  const ada = test.visitor()
  await signIn(ada, test.corp, 'ada', signInUrl({}))
  const counts = countWrites(test)
  const lose = async (number: number) => {
    const begun = await ada.visit(`${WANTED}&n=${number}`)
    const { statusCode, headers } = await ada.open(begun.headers.location ?? '')
    const url = String(headers.location)
    if (ticketIn(url) !== undefined) await test.visitor().visit(url)
    return statusCode
  }
  for (let i = 0; i < TICKETS.burst; i++) t.equal(await lose(i), 303)
  t.equal(await lose(TICKETS.burst), 429)
  t.equal(counts.tell, TICKETS.burst, `rows of ${EVENTS.name}`)
  await test.clock.advance(TICKETS.interval)
  t.equal(await lose(TICKETS.burst), 303)
})
