import fc from 'fast-check'
import t from 'tap'
import { COLOR_PATTERN, contrast, standOut, textOn } from '../../src/pages/colors.ts'

const color = fc
  .integer({ min: 0, max: 0xffffff })
  .map((value) => `#${value.toString(16).padStart(6, '0')}`)

t.test('contrast is the ratio of WCAG 2.2', async (t) => {
  const ratios = [
    ['#000', '#fff', 21],
    ['#ffffff', '#FFFFFF', 1],
    ['#767676', '#ffffff', 4.542],
    ['#0000ff', '#ffffff', 8.592],
    ['#ff0000', '#00ff00', 2.914],
  ] as const
  for (const [one, other, ratio] of ratios) {
    t.match(contrast(one, other).toFixed(3), ratio.toFixed(3), `${one} and ${other}`)
    t.equal(contrast(other, one), contrast(one, other), `${other} and ${one}`)
  }
})

t.test('text on any colour reaches AA', async () =>
  fc.assert(fc.property(color, (background) => contrast(textOn(background), background) >= 4.5)),
)

t.test('gives any accent enough contrast with any background', async () =>
  fc.assert(
    fc.property(color, color, (accent, card) => contrast(standOut(accent, card), card) >= 3),
  ),
)

t.test('leaves an accent with enough contrast as it is', async () =>
  fc.assert(
    fc.property(color, (accent) => {
      fc.pre(contrast(accent, '#ffffff') >= 3)
      return standOut(accent, '#ffffff') === accent
    }),
  ),
)

t.test('refuses a text that is not a colour', async (t) => {
  const pattern = new RegExp(COLOR_PATTERN)
  for (const text of ['', 'red', '#ff', '#ffff', '#ggg', '#fff\n', ' #fff', '#fff}*{', 'url(x)']) {
    t.notOk(pattern.test(text), `pattern: ${JSON.stringify(text)}`)
    t.throws(() => textOn(text), TypeError, JSON.stringify(text))
  }
  for (const text of ['#fff', '#A1b2C3']) t.ok(pattern.test(text), text)
})
