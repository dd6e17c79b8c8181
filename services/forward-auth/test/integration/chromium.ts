import { type Browser, chromium } from 'playwright-core'
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
export async function launchChromium(
  t: Pick<Test, 'teardown'>,
  ...further: string[]
): Promise<Browser> {
  const args = [...ARGUMENTS, ...further]
  // Going back shows the page as it was left, as it does for people.
  const ignoreDefaultArgs = ['--disable-back-forward-cache']
  const executablePath = '/usr/bin/chromium'
  const browser = await chromium.launch({ executablePath, args, ignoreDefaultArgs })
  t.teardown(() => browser.close())
  return browser
}
