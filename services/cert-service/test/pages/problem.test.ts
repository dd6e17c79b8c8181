import t from 'tap'
import { problemPage } from '../../src/pages/problem.ts'

t.test('what a problem says in backticks is shown as code', async (t) => {
  const { html } = problemPage(
    { lang: 'en' },
    {
      ...{ type: '', title: 'Request is not valid', status: 400, code: 'FST_ERR_VALIDATION' },
      detail: '`x` is not a known member',
      errors: [{ pointer: '/x', detail: 'must be `<y>`' }],
    },
  )
  t.match(html, '<code>x</code> is not a known member')
  t.match(html, 'must be <code>&lt;y&gt;</code>')
  t.notMatch(html.replace(/<style>.*?<\/style>/s, ''), '`')
})
