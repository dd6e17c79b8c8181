import { PROBE_STATES } from '@gatehouse/cert-store/port'
import t, { type Test } from 'tap'
import {
  newAudit,
  newCertificate,
  newOrder,
  newProbe,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import { createIdp, DAY, KEY, NOW, type Running, start } from '../helpers/app.ts'
import { inEveryLook, openTab } from './tabs.ts'

const LONG = 'donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbau'
const AUDIENCE = 'https://certs.example.com'
const RULES = [
  { people: 'anyone', names: ['*'], rights: ['issue', 'read', 'renew', 'revoke', 'delete'] },
]

/** The service behind a portal, over HTTPS: a browser sends the header that the proxy would add. */
async function listen(t: Test) {
  const portal = await createIdp(t, () => NOW)
  const auth = {
    psk: { key: KEY },
    assertion: { issuerUrl: portal.issuerUrl, audience: AUDIENCE },
  }
  const running = await start(t, { auth, rules: RULES }, { tls: true })
  await fill(running)
  const address = await running.app.listen({ host: '127.0.0.1', port: 0 })
  const claims = { aud: AUDIENCE, name: 'Ada Lovelace', groups: ['ops'] }
  return {
    running,
    origin: address.replace('127.0.0.1', 'localhost'),
    person: { extraHTTPHeaders: { 'x-gatehouse-assertion': portal.assertion(claims) } },
  }
}

async function fill({ call, service: { store, issuers } }: Running): Promise<void> {
  for (const domain of ['app.example.com', 'withdrawn.example.com', `${LONG}.${LONG}.example.com`])
    await call('POST', '/api/certificate', { domain, names: [`www.${domain}`] })
  const add = (domain: string, moments: object = {}) =>
    store.addCertificate(newCertificate({ names: [domain], ...moments }), newAudit())
  for (const requestKey of ['replaced', 'replaced', 'revoked', 'deleted']) {
    const { id } = await add('old.example.com', {
      requestKey,
      serialNumber: `abc${requestKey.length}${Math.random().toString(16).slice(2)}`,
    })
    if (requestKey === 'revoked')
      await store.revoke([id], NOW, 'keyCompromise', newAudit({ action: 'revoke' }))
    if (requestKey === 'deleted') await store.remove([id], newAudit({ action: 'delete' }))
  }
  const served = `served.${LONG}.example.com`
  await add(served)
  for (const [index, state] of PROBE_STATES.entries()) {
    const address = index % 2 ? '2001:db8:1234:5678:9abc:def0:1234:5678' : '192.0.2.10'
    const reporter = index % 2 ? 'psk:a-caller-with-a-long-name' : ''
    await store.saveProbe(
      newProbe({
        name: served,
        host: `host${index}.${LONG}.example.com`,
        address,
        state,
        reporter,
      }),
    )
  }
  const gone = await add('gone.example.com')
  await store.remove([gone.id], newAudit({ action: 'delete' }))
  await add('ended.example.com', { notBefore: NOW - 8 * DAY, notAfter: NOW - DAY, renewAt: null })
  await add('unrenewed.example.com', { notAfter: NOW + DAY, renewAt: null })
  const { requestKey, names } = await add('failing.example.com', { renewAt: NOW + 60_000 })
  const lastError = {
    code: 'ACME_CAA',
    detail: `CAA records of ${LONG}.${LONG} forbid it`,
    at: NOW,
  }
  const failed = { status: 'failed', lastError, nextTryAt: NOW + 3_600_000, failures: 3 } as const
  await store.saveOrder(newOrder({ id: 'failing', requestKey, names, ...failed }))
  await store.saveOrder(
    newOrder({
      id: 'never',
      requestKey: `ca|server|p256|never.${LONG}.example.com`,
      names: [`never.${LONG}.example.com`],
      // A failure with another configuration would be tried anew.
      configuration: issuers.find('ca')?.configuration,
      ...failed,
    }),
  )
}

const PENDING = newOrder({
  id: 'pending',
  requestKey: 'p',
  names: ['pending.example.com'],
  step: 'waiting for the CA',
})

/** What people see, by the address and what must be on it. */
const PAGES: readonly [name: string, path: string, sees: string][] = [
  ['details', '/certificates/app.example.com', 'In service.'],
  ['long names', `/certificates/${LONG}.${LONG}.example.com`, 'In service.'],
  ['served', `/certificates/served.${LONG}.example.com`, 'An older certificate is served.'],
  ['history', '/certificates/old.example.com', 'Replaced by a newer one'],
  [
    'nothing in service',
    '/certificates/gone.example.com',
    'No certificate of this name is in service.',
  ],
  ['ended', '/certificates/ended.example.com', 'Clients refuse it.'],
  ['unrenewed', '/certificates/unrenewed.example.com', 'no longer renewed'],
  ['failing', '/certificates/failing.example.com', 'could not be renewed'],
  ['failed order', '/orders/never', 'The last order failed ('],
  ['pending order', '/orders/pending', 'An order is under way.'],
  ['confirm renew', '/certificates/ended.example.com/renew', 'Renew ended.example.com?'],
  ['not due', '/certificates/app.example.com/renew', 'is not due yet'],
  ['confirm revoke', '/certificates/app.example.com/revoke', 'Why?'],
  ['confirm delete', `/certificates/${LONG}.${LONG}.example.com/delete`, 'Delete'],
  ['confirm dry run', '/certificates/app.example.com/dry-run', 'Nothing is ordered or changed'],
  ['request', '/request', 'Request a certificate'],
  ['hidden or absent', '/certificates/none.example.com', 'Nothing has this name or ID'],
  ['no order', '/orders/none', 'Order not found'],
  ['no path', '/nothing/here', 'Not found'],
  ['no method', '/sign-out', 'Method not allowed'],
  ['API', '/api/certificates', 'Credentials'],
  ['errors', '/errors', 'CERT_NOT_FOUND'],
]

t.test('every page is sound in both schemes at every width', async (t) => {
  const { running, origin, person } = await listen(t)
  await inEveryLook(
    t,
    async ({ tab, said, scheme, hold }) => {
      // By then the service has taken up all orders that were under way when it started.
      await tab.goto(`${origin}/`)
      await running.service.store.saveOrder(PENDING)
      for (const [name, path, sees] of PAGES) {
        await tab.goto(`${origin}${path}`)
        await tab.getByText(sees).first().waitFor()
        await hold(name)
      }
      await tab.goto(`${origin}/certificates/app.example.com`)
      await tab.getByText('Details, fingerprint and chain').click()
      await tab.getByText('Chain as text').click()
      await hold('chain as text')
      await tab.goto(`${origin}/certificates/app.example.com/dry-run`)
      await tab.getByRole('button', { name: 'Check' }).click()
      await tab.getByText('No obstacles were found.').waitFor()
      await hold('free dry run')
      await tab.goto(`${origin}/orders/never`)
      await tab.getByRole('link', { name: 'Check' }).click()
      await tab.getByRole('button', { name: 'Check' }).click()
      await tab.getByText('It would fail').waitFor()
      await hold('failing dry run')
      await tab.goto(`${origin}/request`)
      await tab.getByLabel('Name', { exact: true }).fill('not a name')
      await tab.getByRole('button', { name: 'Show what would happen' }).click()
      await tab.getByRole('alert').waitFor()
      await hold('refused request')
      await tab.getByLabel('Name', { exact: true }).fill(`new.${LONG}.example.com`)
      await tab.getByRole('button', { name: 'Show what would happen' }).click()
      await tab.getByRole('button', { name: 'Request it' }).waitFor()
      await hold('request to confirm')
      t.strictSame(said, [], `${scheme}: the console is empty`)
    },
    person,
  )
})

t.test('without script: look, revoke with a reason, read what was done', async (t) => {
  const { origin, person } = await listen(t)
  const { context, tab } = await openTab({ ...person, javaScriptEnabled: false })
  await tab.goto(`${origin}/`)
  await tab.locator('.list a', { hasText: 'withdrawn.example.com' }).click()
  await tab.getByText('Expires', { exact: true }).waitFor()
  t.equal(await tab.getByRole('button', { name: /Copy/ }).count(), 0, 'no button without a use')
  await tab.getByText('Details, fingerprint and chain').click()
  const [download] = await Promise.all([
    tab.waitForEvent('download'),
    tab.getByRole('link', { name: 'Chain (PEM)' }).click(),
  ])
  t.equal(download.suggestedFilename(), 'withdrawn.example.com-chain.pem')
  await tab.getByRole('link', { name: 'Revoke' }).click()
  await tab.getByText('cessationOfOperation').click()
  await tab.getByRole('button', { name: 'Revoke' }).click()
  await tab.getByRole('status').waitFor()
  t.match(
    await tab.getByRole('status').textContent(),
    'revoked one certificate (cessationOfOperation)',
  )
  t.ok(await tab.getByText('No certificate of this name is in service.').isVisible())
  await tab.reload()
  t.equal(await tab.getByRole('status').count(), 0, 'said once')

  await tab.goto(`${origin}/request`)
  await tab.getByLabel('Name', { exact: true }).fill('wanted.example.com')
  await tab.getByLabel('Key').selectOption('ed25519')
  await tab.getByRole('button', { name: 'Show what would happen' }).click()
  await tab.getByRole('button', { name: 'Request it' }).click()
  t.match(await tab.getByRole('status').textContent(), 'wanted.example.com: issued.')
  await context.close()
})

t.test(
  'the keyboard is enough: the fingerprint is copied, and a certificate is deleted',
  async (t) => {
    const { origin, person } = await listen(t)
    const { context, tab } = await openTab(person)
    await tab.goto(`${origin}/certificates/old.example.com`)
    const press = async (keys: string[], expected: string[]) => {
      const reached: string[] = []
      for (const key of keys) {
        await tab.keyboard.press(key)
        const [name, outline] = (await tab.evaluate(`[
          (document.activeElement.labels?.[0] ?? document.activeElement).innerText,
          getComputedStyle(document.activeElement).outlineWidth,
        ]`)) as string[]
        reached.push(name!.replace(/\s+/g, ' '))
        t.equal(outline, '3px', `${name}: in focus`)
      }
      t.strictSame(reached, expected)
    }
    const tabs = (count: number) => Array.from({ length: count }, () => 'Tab')
    await press(tabs(3), ['Gatehouse', 'Ada Lovelace', 'Sign out'])
    await press(tabs(6), ['Certificates', 'Copy Names', 'Renew', 'Revoke', 'Delete', 'Check'])
    await tab.locator('summary', { hasText: 'Details, fingerprint' }).focus()
    await tab.keyboard.press('Enter')
    await press(tabs(4), [...['SHA-256', 'Copy SHA-256', 'Serial number', 'Copy Serial number']])
    await press(['Shift+Tab'], ['Serial number'])
    const selected = await tab.evaluate('getSelection().toString()')
    t.match(selected, /^abc8[0-9a-f]+$/, 'a field is selected as a whole when it is entered')
    await tab.getByRole('link', { name: 'Delete' }).focus()
    await tab.keyboard.press('Enter')
    await tab.getByRole('heading', { name: 'Delete old.example.com?' }).waitFor()
    await press(tabs(4), ['Gatehouse', 'Ada Lovelace', 'Sign out', 'Delete'])
    await tab.keyboard.press('Enter')
    await tab.getByRole('status').waitFor()
    t.match(await tab.getByRole('status').textContent(), 'old.example.com: deleted')
    await context.close()
  },
)
