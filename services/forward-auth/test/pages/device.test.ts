import fc from 'fast-check'
import t from 'tap'
import { deviceOf } from '../../src/pages/device.ts'

const WEBKIT = 'AppleWebKit/537.36 (KHTML, like Gecko)'
const CHROME = `${WEBKIT} Chrome/140.0.0.0 Safari/537.36`
const WINDOWS = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64)'
const MAC = 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)'
const ANDROID = 'Mozilla/5.0 (Linux; Android 10; K)'
const IPHONE = 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15'
const IPAD = 'Mozilla/5.0 (iPad; CPU OS 18_6 like Mac OS X) AppleWebKit/605.1.15'
const GECKO = 'Gecko/20100101 Firefox/140.0'

const DEVICES: [userAgent: string, browser: string | undefined, system: string | undefined][] = [
  [`${WINDOWS} ${CHROME}`, 'Chrome', 'Windows'],
  [`${WINDOWS} ${CHROME} Edg/140.0.0.0`, 'Edge', 'Windows'],
  [`${WINDOWS} ${CHROME} OPR/122.0.0.0`, 'Opera', 'Windows'],
  [`Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) ${GECKO}`, 'Firefox', 'Windows'],
  [`Mozilla/5.0 (X11; Linux x86_64; rv:140.0) ${GECKO}`, 'Firefox', 'Linux'],
  [
    `Mozilla/5.0 (X11; Linux x86_64) ${CHROME.replace('Chrome', 'HeadlessChrome')}`,
    'Chrome',
    'Linux',
  ],
  [`Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) ${CHROME}`, 'Chrome', 'ChromeOS'],
  [
    `${MAC} AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15`,
    'Safari',
    'macOS',
  ],
  [`Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:140.0) ${GECKO}`, 'Firefox', 'macOS'],
  [`${ANDROID} ${WEBKIT} Chrome/140.0.0.0 Mobile Safari/537.36`, 'Chrome', 'Android'],
  [`${ANDROID} ${WEBKIT} Chrome/140.0.0.0 Mobile Safari/537.36 EdgA/140.0.0.0`, 'Edge', 'Android'],
  [
    `${ANDROID} ${WEBKIT} SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36`,
    'Samsung Internet',
    'Android',
  ],
  ['Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0', 'Firefox', 'Android'],
  [`${IPHONE} (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1`, 'Safari', 'iOS'],
  [`${IPHONE} (KHTML, like Gecko) CriOS/140.0.0.0 Mobile/15E148 Safari/604.1`, 'Chrome', 'iOS'],
  [`${IPHONE} (KHTML, like Gecko) FxiOS/140.0 Mobile/15E148 Safari/605.1.15`, 'Firefox', 'iOS'],
  [
    `${IPHONE} (KHTML, like Gecko) Version/26.0 EdgiOS/140.0 Mobile/15E148 Safari/605.1.15`,
    'Edge',
    'iOS',
  ],
  [`${IPAD} (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1`, 'Safari', 'iPadOS'],
  ['Wget/1.24 (Linux)', undefined, 'Linux'],
  ['curl/8.16.0', undefined, undefined],
  ['', undefined, undefined],
  [`${'x'.repeat(300)} Firefox/140.0 Linux`, undefined, undefined],
]

t.test('names the browser and the system', async (t) => {
  for (const [userAgent, browser, system] of DEVICES)
    t.strictSame(deviceOf(userAgent), { browser, system }, userAgent.slice(0, 120) || 'none')
})

t.test('whatever a client sends, only known names come out', async () => {
  const browsers = DEVICES.map(([, browser]) => browser)
  const systems = DEVICES.map(([, , system]) => system)
  const words = fc.constantFrom('Firefox/', 'Chrome/', 'Linux', 'iPad', '<b>', '\u202e', '" ', ';')
  fc.assert(
    fc.property(fc.array(fc.oneof(words, fc.string({ unit: 'binary' }))), (parts) => {
      const { browser, system } = deviceOf(parts.join(' '))
      return browsers.includes(browser) && systems.includes(system)
    }),
  )
})
