import t from 'tap'
import { readJsonSchema } from '../src/json-schema.ts'

t.test('the JSON Schema of each service', async (t) => {
  for (const name of ['cert-service', 'forward-auth'])
    t.match(JSON.parse(readJsonSchema(name)), {
      $schema: 'http://json-schema.org/draft-07/schema#',
      title: `Configuration of ${name}`,
      properties: { server: { type: 'object' } },
    })
})
