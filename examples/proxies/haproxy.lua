-- http-request lua.gatehouse <address of the check>
--
-- Asks Gatehouse whether a request may pass. If so, sets txn.gatehouse to "allow" and adds the identity
-- headers for the app. Otherwise sends the response of Gatehouse to the client.

-- The identity headers of the portal (its `headers`).
local IDENTITY = {
  'x-forwarded-user', 'x-forwarded-displayname', 'x-authenticated-user', 'x-gatehouse-assertion',
  'x-gatehouse-tools',
}

-- The headers of the request that Gatehouse needs, besides those for host and path. The last two lines
-- replace method and path for some apps.
local ASKED = {
  'accept', 'accept-language', 'access-control-request-method', 'authorization', 'cookie', 'origin',
  'referer', 'sec-fetch-dest', 'sec-fetch-mode', 'sec-fetch-site', 'sec-purpose', 'upgrade',
  'upgrade-insecure-requests', 'user-agent', 'x-requested-with',
  'last-event-id', 'mcp-method', 'mcp-name', 'mcp-protocol-version', 'mcp-session-id',
  'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto',
  'x-http-method', 'x-http-method-override', 'x-method-override',
  'destination', 'x-rewrite-url',
}

-- Headers that HAProxy writes itself.
local FRAMING = { 'connection', 'content-length', 'keep-alive', 'transfer-encoding' }

-- The timeout of each of four attempts, in ms.
local TIMEOUT = 2000

local function ask(txn, address)
  local sent = txn.http:req_get_headers()
  local headers = {
    ['x-forwarded-method'] = { txn.sf:method() },
    ['x-forwarded-uri'] = { txn.sf:pathq() },
  }
  for _, name in ipairs(ASKED) do headers[name] = sent[name] end
  local url = address .. '?policy=' .. (txn:get_var('txn.policy') or '')
  return core.httpclient():get { url = url, headers = headers, timeout = TIMEOUT }
end

local function refuse(txn, answer)
  for _, name in ipairs(FRAMING) do answer.headers[name] = nil end
  txn:done(txn:reply {
    status = answer.status,
    reason = answer.reason,
    headers = answer.headers,
    body = answer.body,
  })
end

core.register_action('gatehouse', { 'http-req' }, function(txn, address)
  local answer = ask(txn, address)
  if answer.status ~= 200 then return refuse(txn, answer) end
  for _, name in ipairs(IDENTITY) do
    local value = answer.headers[name] and answer.headers[name][0]
    txn.http:req_set_header(name, value or '')
  end
  -- What the client sent, or empty if it was a key for Gatehouse.
  local own = answer.headers['authorization']
  if own then txn.http:req_set_header('authorization', own[0]) end
  txn:set_var('txn.gatehouse', 'allow')
end, 1)
