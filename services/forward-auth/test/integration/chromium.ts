import { type Browser, chromium, type LaunchOptions } from 'playwright-core'
import type { Test } from 'tap'

const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** Debian's Chromium without a window; it ends with the test. */
export function launchChromium(t: Pick<Test, 'teardown'>, ...further: string[]): Promise<Browser> {
  return launch(t, further)
}

/** The same, for somebody with this home, whose certificates it trusts. */
export function launchChromiumOf(t: Pick<Test, 'teardown'>, home: string, ...further: string[]) {
  return launch(t, further, { env: { ...process.env, HOME: home } })
}

/** The same, where going back shows the page as it was left, as it does for people. Playwright learns nothing of such a page. */
export function launchKeepingChromium(t: Pick<Test, 'teardown'>, ...further: string[]) {
  return launch(t, further, { ignoreDefaultArgs: ['--disable-back-forward-cache'] })
}

async function launch(
  t: Pick<Test, 'teardown'>,
  further: readonly string[],
  options: LaunchOptions = {},
): Promise<Browser> {
  const args = [...ARGUMENTS, ...further]
  const executablePath = '/usr/bin/chromium'
  const browser = await chromium.launch({ executablePath, args, ...options })
  t.teardown(() => browser.close())
  return browser
}
