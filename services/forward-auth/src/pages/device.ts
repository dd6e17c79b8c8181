type Names = readonly (readonly [sign: RegExp, name: string])[]

/** Many browsers name others, too. The first that fits is it. */
const BROWSERS: Names = [
  [/\bEdg(e|A|iOS)?\//, 'Edge'],
  [/\bOP[RT]\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\b(Firefox|FxiOS)\//, 'Firefox'],
  [/\b((Headless)?Chrome|Chromium|CriOS)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
]

const SYSTEMS: Names = [
  [/\bWindows\b/, 'Windows'],
  [/\bAndroid\b/, 'Android'],
  [/\biPhone\b/, 'iOS'],
  [/\biPad\b/, 'iPadOS'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bMacintosh\b/, 'macOS'],
  [/\bLinux\b/, 'Linux'],
]

const MAX_READ = 300

/** The browser and system that a user agent tells of, as far as they are known. */
export function deviceOf(userAgent: string) {
  const start = userAgent.slice(0, MAX_READ)
  const find = (names: Names) => names.find(([sign]) => sign.test(start))?.[1]
  return { browser: find(BROWSERS), system: find(SYSTEMS) }
}
