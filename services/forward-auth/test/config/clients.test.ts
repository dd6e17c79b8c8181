import t from 'tap'
import { checkClients, compileClients } from '../../src/config/clients.ts'

const ID = 'https://claude.ai/oauth/client.json'

t.test('the clients of a list, by host or URL of their documents', async (t) => {
  const table: [entry: string, id: string, isAllowed: boolean][] = [
    ['*', ID, true],
    ['claude.ai', ID, true],
    ['claude.ai', 'https://claude.ai:8443/client.json', true],
    ['claude.ai:8443', 'https://claude.ai:8443/client.json', true],
    ['claude.ai:8443', ID, false],
    ['claude.ai', 'https://a.claude.ai/client.json', false],
    ['claude.ai', 'https://claude.ai.evil.test/client.json', false],
    ['claude.ai', 'https://evil.test/claude.ai', false],
    ['192.0.2.1', 'https://192.0.2.1/client.json', true],
    ['[2001:db8::1]', 'https://[2001:db8::1]/client.json', true],
    [ID, ID, true],
    [ID, `${ID}?x`, false],
    ['https://claude.ai/oauth/*', ID, true],
    ['https://claude.ai/oauth/*', 'https://claude.ai/other/client.json', false],
    ['https://claude.ai/oauth*', 'https://claude.ai/oauth-2/client.json', true],
    ['https://claude.ai/*', 'https://claude.ai.evil.test/client.json', false],
  ]
  for (const [entry, id, isAllowed] of table) {
    t.strictSame(checkClients([entry]), [], entry)
    t.equal(compileClients([entry])(new URL(id)), isAllowed, `${entry} ${id}`)
  }
  t.equal(compileClients(undefined)(new URL(ID)), true, 'without a list, all')
})

t.test('what could never be the ID of a client is a fault', async (t) => {
  for (const entry of [
    ...['', 'Claude.AI', 'claude.ai.', '*.claude.ai', 'claude', 'bücher.example', '2001:db8::1'],
    ...[
      'claude.ai/oauth',
      'claude.ai:443',
      'user@claude.ai',
      'http://claude.ai/x',
      'https://claude.ai',
    ],
    ...[
      'https://Claude.ai/x',
      'https://claude.ai:443/x',
      'https://*.claude.ai/x',
      'https://claude.ai/../x',
    ],
  ])
    t.match(checkClients([entry]), [{ path: '/authorizationServer/clients/0' }], entry)
})

t.test('faults of clients that are registered', async (t) => {
  const chat = { id: 'chat', name: 'Chat', redirectUris: ['https://chat.example.com/'] }
  const at = '/authorizationServer/clients/0'
  t.strictSame(checkClients([chat]), [])
  t.match(checkClients([{ ...chat, id: 'registered.x' }]), [{ path: `${at}/id` }])
  t.match(checkClients([{ ...chat, name: 'a\u202eb' }]), [{ path: `${at}/name` }])
  t.match(checkClients([{ ...chat, redirectUris: ['http://evil.example/'] }]), [
    { path: `${at}/redirectUris/0` },
  ])
  t.match(checkClients([{ ...chat, jwksUrl: 'x' }]), [{ path: `${at}/jwksUrl` }])
  t.match(
    checkClients([{ ...chat, secret: 'a'.repeat(16), jwksUrl: 'https://chat.example.com/j' }]),
    [{ path: `${at}/jwksUrl` }],
  )
  t.match(checkClients([chat, chat]), [{ path: '/authorizationServer/clients/1/id' }])
})
