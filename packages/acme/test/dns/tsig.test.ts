import t from 'tap'
import { signMessage, type TsigKey, verifyAnswer } from '../../src/dns/tsig.ts'

const NOW = Date.UTC(2030, 0, 1)
const SECRET = Buffer.from(Array.from({ length: 32 }, (_, index) => index))

// Made with dnspython 2, another implementation.
const VECTORS = {
  'hmac-sha256': {
    // An update of example.com with one TXT record, its signature, and an answer with its own.
    message:
      '123428000001000000010000076578616d706c6503636f6d00000600010f5f61636d652d6368616c6c656e6765c00c001000010000003c000d0c766563746f722d76616c7565',
    signature:
      '0967617465686f7573650000fa00ff00000000003d0b686d61632d73686132353600000070dbd880012c00204503581b7771dd2132eb85410e42050de49bffb050648cfc3dac29c1c11979c4123400000000',
    mac: '4503581b7771dd2132eb85410e42050de49bffb050648cfc3dac29c1c11979c4',
    answer:
      '1234a8000001000000000001076578616d706c6503636f6d00000600010967617465686f7573650000fa00ff00000000003d0b686d61632d73686132353600000070dbd880012c002089f87138ff189c8d9c1368d6137d9ca9285578892ba7f60b7567acbdb586cc9b123400000000',
  },
  'hmac-sha512': {
    // An update of example.com with one TXT record, its signature, and an answer with its own.
    message:
      '123428000001000000010000076578616d706c6503636f6d00000600010f5f61636d652d6368616c6c656e6765c00c001000010000003c000d0c766563746f722d76616c7565',
    signature:
      '0967617465686f7573650000fa00ff00000000005d0b686d61632d73686135313200000070dbd880012c004027c751a7189639e0352b35f7b2aff97f1fdec85e75c8c680ab52b6bc36926ea2b34a982923c7c62b9df07f56d64ccc093042b84f56ab98b177c16e272873a8af123400000000',
    mac: '27c751a7189639e0352b35f7b2aff97f1fdec85e75c8c680ab52b6bc36926ea2b34a982923c7c62b9df07f56d64ccc093042b84f56ab98b177c16e272873a8af',
    answer:
      '1234a8000001000000000001076578616d706c6503636f6d00000600010967617465686f7573650000fa00ff00000000005d0b686d61632d73686135313200000070dbd880012c00400b5bb323507893f558ab7ac1c5ef473bc8bc95ffd273926238f242340857264687ac59e9256ad36e66e7798f88539301fbdb6efd3b8636f281e8e892780f4080123400000000',
  },
} as const

const keyFor = (algorithm: TsigKey['algorithm']): TsigKey => ({
  name: 'gatehouse',
  algorithm,
  secret: SECRET,
})
const hex = (text: string) => Buffer.from(text, 'hex')

for (const [algorithm, vector] of Object.entries(VECTORS)) {
  const key = keyFor(algorithm as TsigKey['algorithm'])
  t.test(`${algorithm}: signs and verifies as another implementation does`, async (t) => {
    const { bytes, mac } = signMessage(hex(vector.message), key, NOW)
    t.equal(mac.toString('hex'), vector.mac)
    t.equal(bytes.subarray(vector.message.length / 2).toString('hex'), vector.signature)
    t.equal(bytes.readUInt16BE(10), 1, 'the signature is counted')
    t.equal(verifyAnswer(hex(vector.answer), key, mac, NOW).id, 0x1234)
  })

  t.test(`${algorithm}: an answer with any bit changed is refused`, async (t) => {
    const answer = hex(vector.answer)
    for (let at = 0; at < answer.length; at++) {
      const changed = Buffer.from(answer)
      changed[at] = (changed[at] ?? 0) ^ 0x01
      // The first two bytes are the identifier on the way; the original is in the signature.
      if (at > 1) t.throws(() => verifyAnswer(changed, key, hex(vector.mac), NOW), `byte ${at}`)
    }
  })
}

const { mac, answer } = VECTORS['hmac-sha256']
const key = keyFor('hmac-sha256')
const SIGNATURE_AT = answer.indexOf('0967617465686f757365') / 2

/** The answer with another error in its signature record, which a server leaves unsigned. */
function withError(error: number): Buffer {
  const changed = hex(answer)
  changed.writeUInt16BE(error, changed.length - 4)
  return changed
}

const REFUSED: [
  title: string,
  act: () => unknown,
  expected: { code: string; message?: string | RegExp },
][] = [
  [
    'an answer that is not signed',
    () => {
      const unsigned = hex(answer).subarray(0, SIGNATURE_AT)
      unsigned.writeUInt16BE(0, 10)
      return verifyAnswer(unsigned, key, hex(mac), NOW)
    },
    { code: 'ACME_DNS_LOOKUP', message: /not signed/ },
  ],
  [
    'an answer to another request',
    () => verifyAnswer(hex(answer), key, Buffer.alloc(32), NOW),
    { code: 'ACME_DNS_LOOKUP', message: /signature is wrong/ },
  ],
  [
    'another key',
    () => verifyAnswer(hex(answer), { ...key, name: 'other' }, hex(mac), NOW),
    { code: 'ACME_DNS_LOOKUP', message: /another key/ },
  ],
  [
    'another secret',
    () => verifyAnswer(hex(answer), { ...key, secret: Buffer.alloc(32) }, hex(mac), NOW),
    { code: 'ACME_DNS_LOOKUP', message: /signature is wrong/ },
  ],
  [
    'an answer of another time',
    () => verifyAnswer(hex(answer), key, hex(mac), NOW + 302_000),
    { code: 'ACME_DNS_LOOKUP', message: /not of this time/ },
  ],
  [
    'BADSIG',
    () => verifyAnswer(withError(16), key, hex(mac), NOW),
    { code: 'ACME_DNS_CREDENTIALS', message: /secret and the algorithm/ },
  ],
  [
    'BADKEY',
    () => verifyAnswer(withError(17), key, hex(mac), NOW),
    { code: 'ACME_DNS_CREDENTIALS', message: /does not know the key/ },
  ],
  [
    'BADTIME',
    () => verifyAnswer(withError(18), key, hex(mac), NOW),
    { code: 'ACME_DNS_CREDENTIALS', message: /clocks/ },
  ],
]

for (const [title, act, expected] of REFUSED)
  t.test(`refused: ${title}`, async (t) => void t.throws(act, expected))
