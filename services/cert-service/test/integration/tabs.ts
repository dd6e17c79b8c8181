import axe from 'axe-core'
import type { BrowserContext, BrowserContextOptions, Page as Tab } from 'playwright-core'
import t, { type Test } from 'tap'
import { launchChromium } from '../../../forward-auth/test/integration/chromium.ts'

const SCHEMES = ['light', 'dark'] as const
const WIDTHS = [320, 1280]

const browser = await launchChromium(t)

/** A tab, and what its console said but for the statuses of answers. */
export async function openTab(options: BrowserContextOptions) {
  const context = await browser.newContext({ ...options, ignoreHTTPSErrors: true })
  context.setDefaultTimeout(20_000)
  const tab = await context.newPage()
  const said: string[] = []
  tab.on('console', (message) => {
    const text = message.text()
    if (['error', 'warning'].includes(message.type()) && !/status of 4\d\d/.test(text))
      said.push(text)
  })
  tab.on('pageerror', (error) => said.push(error.message))
  return { context, tab, said }
}

interface Look {
  readonly context: BrowserContext
  readonly tab: Tab
  readonly said: string[]
  readonly scheme: string
  /** Fails if the page can be scrolled sideways, or axe finds something. */
  hold(name: string): Promise<void>
}

/** Looks at pages in both schemes at every width. With `GATEHOUSE_SHOTS`, pictures go to that folder. */
export async function inEveryLook(
  t: Test,
  look: (at: Look) => Promise<void>,
  options: BrowserContextOptions = {},
): Promise<void> {
  for (const colorScheme of SCHEMES)
    for (const width of WIDTHS) {
      const viewport = { width, height: 900 }
      const opened = await openTab({ ...options, colorScheme, viewport })
      const scheme = `${colorScheme} ${width}`
      const hold = (name: string) => holdSound(t, opened.tab, width, `${scheme}: ${name}`)
      await look({ ...opened, scheme, hold })
      await opened.context.close()
    }
}

async function holdSound(t: Test, tab: Tab, width: number, name: string): Promise<void> {
  const folder = process.env.GATEHOUSE_SHOTS
  if (folder !== undefined)
    await tab.screenshot({ path: `${folder}/${name.replace(/\W+/g, '-')}.png`, fullPage: true })
  const scrolled = (await tab.evaluate('document.documentElement.scrollWidth')) as number
  t.ok(scrolled <= width, `${name} has nothing to scroll sideways`)
  t.notMatch(
    await tab.content(),
    /(?<!<code)>\s*(false|true|null|undefined|NaN|\[object)\b/,
    `${name}: no bare value`,
  )
  await tab.evaluate(axe.source)
  const found = await tab.evaluate(`axe.run().then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ': ' + html)))`)
  t.strictSame(found, [], `${name} has nothing for axe to find`)
}
