// Signs somebody in with each preset, at a provider that answers as the product does.
import t from 'tap'
import type { ProviderConfig } from '../src/kinds.ts'
import { PRESETS } from '../src/presets/index.ts'
import { newLogin, open, refusal, testDeps } from './kit.ts'
import { createBrowser } from './stand-ins/browser.ts'
import { atStandIn, createFetchTo } from './stand-ins/hosts.ts'
import { CLIENT, REDIRECT_URI } from './stand-ins/openid-provider.ts'
import { startProduct } from './stand-ins/product.ts'
import { PRODUCTS } from './stand-ins/products.ts'

const { clientId, clientSecret } = CLIENT

for (const preset of PRESETS.filter(({ type }) => type !== 'openIDConnect'))
  t.test(preset.type, async (t) => {
    const product = Object.values(PRODUCTS).find(({ config }) => config?.type === preset.type)
    if (!product) throw new Error('no product of stand-ins/products.ts has a configuration of it')
    const origins = await startProduct(t, product, { ...CLIENT, redirectUri: REDIRECT_URI })
    const { options, scopes } = preset
    const config = { name: 'corp', clientId, clientSecret, timeout: 20_000, scopes }
    const defaults = Object.entries(options).map(([name, schema]) => [name, Object(schema).default])
    const provider = open(
      t,
      { ...Object.fromEntries(defaults), ...config, ...product.config } as ProviderConfig,
      testDeps({ createFetch: createFetchTo(origins) }),
    )
    t.match(provider, { title: preset.title, icon: preset.icon.name, stepsUp: true })
    t.strictSame(provider.relation, { issuer: product.issuer, clientId })
    const reach = async () => {
      const login = newLogin()
      const url = await provider.authorizationUrl(login)
      t.equal(url.searchParams.get('scope'), scopes?.join(' '))
      const callback = await createBrowser().signIn(atStandIn(origins, url))
      return { callback, finish: () => provider.finish(callback, login) }
    }
    const { profile } = await (await reach()).finish()
    t.match(profile, product.profile)
    t.match(profile, { provider: 'corp', name: { full: /^Ada/ } })
    const { callback, finish } = await reach()
    callback.searchParams.set('iss', 'https://evil.example')
    t.match(await refusal(finish()), /INVALID.*"iss"/, 'a foreign issuer')
  })
