import fc from 'fast-check'
import t from 'tap'
import { isPublicSuffix, isRegistrySuffix, registrableDomain } from '../src/suffixes.ts'

t.test('public suffixes, and what is registrable below them', async (t) => {
  type Row = [name: string, registrable: string | undefined, suffix?: 'registry' | 'own']
  const rows: Row[] = [
    ['example.com', 'example.com'],
    ['a.b.example.co.uk', 'example.co.uk'],
    ['com', undefined, 'registry'],
    ['co.uk', undefined, 'registry'],
    ['github.io', undefined, 'registry'],
    ['me.github.io', 'me.github.io'],
    ['duckdns.org', undefined, 'registry'],
    ['app.me.duckdns.org', 'me.duckdns.org'],
    ['home.arpa', undefined, 'own'],
    ['app.lab.home.arpa', 'lab.home.arpa'],
    ['lan', undefined, 'own'],
    ['internal', undefined, 'own'],
    ['localhost', undefined, 'own'],
    ['nas.lan', 'nas.lan'],
    ['app.home.internal', 'home.internal'],
    ['fritz.box', 'fritz.box'],
    ['anything.ck', undefined, 'registry'],
    ['www.ck', 'www.ck'],
    ['xn--55qx5d.cn', undefined, 'registry'],
    ['a_b.example.com', 'example.com'],
    ['192.0.2.1', undefined],
    ['2001:db8::1', undefined],
  ]
  for (const [name, registrable, suffix] of rows) {
    t.equal(registrableDomain(name), registrable, name)
    t.equal(isPublicSuffix(name), suffix !== undefined, name)
    t.equal(isRegistrySuffix(name), suffix === 'registry', name)
  }
})

t.test('a name is a suffix, or has a registrable domain that it is on or below', async () => {
  const name = fc.domain().map((each) => each.toLowerCase())
  fc.assert(
    fc.property(name, (each) => {
      const domain = registrableDomain(each)
      if (domain === undefined) return isPublicSuffix(each)
      const isUnder = each === domain || each.endsWith(`.${domain}`)
      return isUnder && !isPublicSuffix(domain) && registrableDomain(`x.${each}`) === domain
    }),
  )
})
