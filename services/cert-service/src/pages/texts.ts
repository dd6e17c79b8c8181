/**
 * The texts of the pages in German, French and Spanish, by the English one. What is in braces is filled in;
 * every language has the same braces.
 */
// biome-ignore format: one row for each text
export const TEXTS = {
  Certificates: ['Zertifikate', 'Certificats', 'Certificados'],
  Account: ['Konto', 'Compte', 'Cuenta'],
  'Sign out': ['Abmelden', 'Se déconnecter', 'Cerrar sesión'],
  'Key {name}': ['Schlüssel {name}', 'Clé {name}', 'Clave {name}'],
  Copy: ['Kopieren', 'Copier', 'Copiar'],
  Copied: ['Kopiert', 'Copié', 'Copiado'],
  now: ['jetzt', 'maintenant', 'ahora'],
  'Back to the certificates': ['Zurück zu den Zertifikaten', 'Retour aux certificats', 'Volver a los certificados'],
  'Back to {domain}': ['Zurück zu {domain}', 'Retour à {domain}', 'Volver a {domain}'],
  'That API key is not valid.': [
    'Dieser API-Schlüssel ist nicht gültig.', 'Cette clé d’API n’est pas valide.', 'Esta clave de API no es válida.'],
  'Enter an API key to see the certificates that it may read. You cannot change anything with it.': [
    'Geben Sie einen API-Schlüssel ein, um die Zertifikate zu sehen, die er lesen darf. Ändern können Sie damit nichts.',
    'Saisissez une clé d’API pour voir les certificats qu’elle peut lire. Elle ne permet aucune modification ici.',
    'Introduzca una clave de API para ver los certificados que puede leer. Con ella no puede cambiar nada.'],
  'API key': ['API-Schlüssel', 'Clé d’API', 'Clave de API'],
  'Show certificates': ['Zertifikate anzeigen', 'Afficher les certificats', 'Mostrar los certificados'],
  'This service accepts access tokens only, which cannot be entered here. Use one on the command line:': [
    'Dieser Dienst nimmt nur Zugriffstokens an, die man hier nicht eingeben kann. Verwenden Sie eines auf der Befehlszeile:',
    'Ce service n’accepte que des jetons d’accès, qui ne peuvent pas être saisis ici. Utilisez-en un en ligne de commande :',
    'Este servicio solo acepta tokens de acceso, que no se pueden introducir aquí. Use uno en la línea de comandos:'],
  All: ['Alle', 'Tous', 'Todos'],
  State: ['Status', 'État', 'Estado'],
  Renews: ['Wird erneuert', 'À renouveler', 'Se renueva'],
  'Being renewed': ['In Erneuerung', 'En cours', 'En renovación'],
  'Not renewed': ['Nicht erneuert', 'Non renouvelé', 'Sin renovación'],
  Failing: ['Mit Fehlern', 'En échec', 'Con errores'],
  Expired: ['Abgelaufen', 'Expiré', 'Caducado'],
  'Renews {when}': ['Erneuerung {when}', 'Renouvellement {when}', 'Se renueva {when}'],
  'Not renewed, expires {when}': ['Nicht erneuert, läuft {when} ab', 'Non renouvelé, expire {when}', 'Sin renovación, caduca {when}'],
  'Failing, expires {when}': ['Mit Fehlern, läuft {when} ab', 'En échec, expire {when}', 'Con errores, caduca {when}'],
  'Failing, expired {when}': ['Mit Fehlern, abgelaufen {when}', 'En échec, expiré {when}', 'Con errores, caducó {when}'],
  'Failing, next try {when}': [
    'Mit Fehlern, nächster Versuch {when}', 'En échec, prochain essai {when}', 'Con errores, próximo intento {when}'],
  'Expired {when}': ['Abgelaufen {when}', 'Expiré {when}', 'Caducó {when}'],
  'Its client is late': ['Client ist überfällig', 'Son client est en retard', 'Su cliente va con retraso'],
  'Needs attention': ['Erfordert Aufmerksamkeit', 'À traiter', 'Requiere atención'],
  'All failing': ['Alle mit Fehlern', 'Tous les échecs', 'Todos los errores'],
  'Request a certificate': ['Zertifikat anfordern', 'Demander un certificat', 'Solicitar un certificado'],
  'Name, address, serial number or fingerprint': [
    'Name, Adresse, Seriennummer oder Fingerabdruck', 'Nom, adresse, numéro de série ou empreinte',
    'Nombre, dirección, número de serie o huella'],
  Issuer: ['Aussteller', 'Émetteur', 'Emisor'],
  'Sort by': ['Sortieren nach', 'Trier par', 'Ordenar por'],
  'Up next': ['Als Nächstes', 'À venir', 'Lo próximo'],
  Expiry: ['Ablauf', 'Expiration', 'Caducidad'],
  Name: ['Name', 'Nom', 'Nombre'],
  Newest: ['Neueste', 'Plus récents', 'Más recientes'],
  Find: ['Suchen', 'Rechercher', 'Buscar'],
  'Show all': ['Alle anzeigen', 'Tout afficher', 'Mostrar todo'],
  'As of {time}.': ['Stand: {time}.', 'État à {time}.', 'Datos de las {time}.'],
  'Stop refreshing': ['Nicht mehr aktualisieren', 'Ne plus actualiser', 'Dejar de actualizar'],
  'Refresh every minute': ['Jede Minute aktualisieren', 'Actualiser chaque minute', 'Actualizar cada minuto'],
  'The API is described at {docs}.': [
    'Die API ist unter {docs} beschrieben.', 'L’API est décrite à {docs}.', 'La API se describe en {docs}.'],
  Pages: ['Seiten', 'Pages', 'Páginas'],
  'First page': ['Erste Seite', 'Première page', 'Primera página'],
  'Previous page': ['Vorige Seite', 'Page précédente', 'Página anterior'],
  'Next page': ['Nächste Seite', 'Page suivante', 'Página siguiente'],
  renewal: ['Erneuerung', 'renouvellement', 'renovación'],
  'expires without renewal': ['Ablauf ohne Erneuerung', 'expiration sans renouvellement', 'caducidad sin renovación'],
  'Coming up, by day': ['Demnächst, nach Tagen', 'À venir, par jour', 'Próximamente, por día'],
  'Coming up, by week': ['Demnächst, nach Wochen', 'À venir, par semaine', 'Próximamente, por semana'],
  'Coming up, by 30 days': ['Demnächst, je 30 Tage', 'À venir, par 30 jours', 'Próximamente, cada 30 días'],
  '{day} and later': ['ab {day}', 'à partir du {day}', 'desde el {day}'],
  '{from}: {renewals} renewed, {ends} expire without renewal': [
    '{from}: {renewals} erneuert, {ends} laufen ohne Erneuerung ab',
    '{from} : {renewals} renouvelés, {ends} expirent sans renouvellement',
    '{from}: {renewals} se renuevan, {ends} caducan sin renovación'],
  'Not all certificates were counted.': [
    'Es wurden nicht alle Zertifikate gezählt.', 'Tous les certificats n’ont pas été comptés.',
    'No se han contado todos los certificados.'],
  '+ {count} more': ['+ {count} weitere', '+ {count} de plus', '+ {count} más'],
  'covers {name}': ['gilt für {name}', 'couvre {name}', 'cubre {name}'],
  'No certificate: {cause}': ['Kein Zertifikat: {cause}', 'Pas de certificat : {cause}', 'Sin certificado: {cause}'],
  'for a client': ['für einen Client', 'pour un client', 'para un cliente'],
  'You can see no certificate that is valid for {name} now.': [
    'Für {name} ist zurzeit kein gültiges Zertifikat sichtbar.', 'Vous ne voyez aucun certificat valide maintenant pour {name}.',
    'No hay ningún certificado visible que sea válido ahora para {name}.'],
  'Request one': ['Eines anfordern', 'En demander un', 'Solicitar uno'],
  'Request it by the API': ['Über die API anfordern', 'Le demander via l’API', 'Solicitarlo por la API'],
  '{name} has a valid certificate. It expires {when}.': [
    '{name} hat ein gültiges Zertifikat. Es läuft {when} ab.', '{name} a un certificat valide. Il expire {when}.',
    '{name} tiene un certificado válido. Caduca {when}.'],
  '{name} is covered by a wildcard. It expires {when}.': [
    'Für {name} gilt ein Wildcard-Zertifikat. Es läuft {when} ab.', '{name} est couvert par un certificat générique. Il expire {when}.',
    '{name} está cubierto por un certificado comodín. Caduca {when}.'],
  'Nothing on this page is visible to you. Try the next or the previous page.': [
    'Auf dieser Seite ist nichts für Sie sichtbar. Versuchen Sie die nächste oder die vorige.',
    'Rien n’est visible pour vous sur cette page. Essayez la suivante ou la précédente.',
    'En esta página no hay nada visible para usted. Pruebe la siguiente o la anterior.'],
  'No certificate that you may see matches.': [
    'Keine passenden Zertifikate, die Sie sehen dürfen.', 'Aucun certificat que vous pouvez voir ne correspond.',
    'Ningún certificado que usted pueda ver coincide.'],
  'You may not see any certificates': [
    'Sie dürfen keine Zertifikate sehen', 'Vous ne pouvez voir aucun certificat', 'No puede ver ningún certificado'],
  'Ask whoever runs this service for a rule that lets you see some.': [
    'Bitten Sie den Betreiber dieses Dienstes um eine Regel, mit der Sie welche sehen.',
    'Demandez à la personne qui gère ce service une règle qui vous en montre.',
    'Pida a quien gestiona este servicio una regla que le deje ver algunos.'],
  'It knows you as {name}, with these groups: {groups}': [
    'Er kennt Sie als {name}, mit diesen Gruppen: {groups}', 'Il vous connaît comme {name}, avec ces groupes : {groups}',
    'Le conoce como {name}, con estos grupos: {groups}'],
  'You see the certificates for {names}. For others, ask whoever runs this service.': [
    'Sie sehen die Zertifikate für {names}. Für andere fragen Sie den Betreiber dieses Dienstes.',
    'Vous voyez les certificats pour {names}. Pour d’autres, demandez à la personne qui gère ce service.',
    'Ve los certificados de {names}. Para otros, pregunte a quien gestiona este servicio.'],
  'You may not see certificates for {name}. Ask whoever runs this service.': [
    'Sie dürfen Zertifikate für {name} nicht sehen. Fragen Sie den Betreiber dieses Dienstes.',
    'Vous ne pouvez pas voir les certificats pour {name}. Demandez à la personne qui gère ce service.',
    'No puede ver certificados de {name}. Pregunte a quien gestiona este servicio.'],
  'No certificates that you may see yet': [
    'Noch keine Zertifikate, die Sie sehen dürfen', 'Pas encore de certificats que vous pouvez voir',
    'Aún no hay certificados que pueda ver'],
  'No certificates yet': ['Noch keine Zertifikate', 'Pas encore de certificats', 'Aún no hay certificados'],
  'The first request for a name gets a certificate, which the service then renews.': [
    'Die erste Anforderung für einen Namen liefert ein Zertifikat, das der Dienst danach erneuert.',
    'La première demande pour un nom obtient un certificat, que le service renouvelle ensuite.',
    'La primera solicitud de un nombre obtiene un certificado, que el servicio renueva después.'],
  'No name that you may see contains “{text}”.': [
    'Kein Name, den Sie sehen dürfen, enthält „{text}“.', 'Aucun nom que vous pouvez voir ne contient « {text} ».',
    'Ningún nombre que usted pueda ver contiene «{text}».'],
  'No certificate in use that you may see has the SHA-256 fingerprint {fingerprint}.': [
    'Kein Zertifikat in Gebrauch, das Sie sehen dürfen, hat den SHA-256-Fingerabdruck {fingerprint}.',
    'Aucun certificat en service que vous pouvez voir n’a l’empreinte SHA-256 {fingerprint}.',
    'Ningún certificado en uso que usted pueda ver tiene la huella SHA-256 {fingerprint}.'],
  'No certificate in use that you may see has the serial number {serial}.': [
    'Kein Zertifikat in Gebrauch, das Sie sehen dürfen, hat die Seriennummer {serial}.',
    'Aucun certificat en service que vous pouvez voir n’a le numéro de série {serial}.',
    'Ningún certificado en uso que usted pueda ver tiene el número de serie {serial}.'],
  'If this is a SHA-1 fingerprint, enter that of SHA-256.': [
    'Falls das ein SHA-1-Fingerabdruck ist, geben Sie den von SHA-256 ein.',
    'S’il s’agit d’une empreinte SHA-1, saisissez celle de SHA-256.', 'Si es una huella SHA-1, introduzca la de SHA-256.'],
  'In service.': ['In Gebrauch.', 'En service.', 'En uso.'],
  'In service. It renews {when}.': ['In Gebrauch. Erneuerung {when}.', 'En service. Renouvellement {when}.', 'En uso. Se renueva {when}.'],
  'In service, and being renewed.': ['In Gebrauch, wird gerade erneuert.', 'En service, renouvellement en cours.', 'En uso, renovándose.'],
  'In service. Its ACME client was to renew it by now. It expires {when}.': [
    'In Gebrauch. Der ACME-Client hätte es schon erneuern sollen. Es läuft {when} ab.',
    'En service. Son client ACME aurait déjà dû le renouveler. Il expire {when}.',
    'En uso. Su cliente ACME ya debería haberlo renovado. Caduca {when}.'],
  'In service, but could not be renewed. It expires {when}.': [
    'In Gebrauch, konnte aber nicht erneuert werden. Es läuft {when} ab.', 'En service, mais n’a pas pu être renouvelé. Il expire {when}.',
    'En uso, pero no se pudo renovar. Caduca {when}.'],
  'In service, but no longer renewed. It expires {when}.': [
    'In Gebrauch, wird aber nicht mehr erneuert. Es läuft {when} ab.', 'En service, mais n’est plus renouvelé. Il expire {when}.',
    'En uso, pero ya no se renueva. Caduca {when}.'],
  'It has not been fetched for two of its lifetimes. The next {request} resumes the renewal.': [
    'Es wurde zwei Laufzeiten lang nicht abgerufen. Mit dem nächsten {request} wird es wieder erneuert.',
    'Il n’a pas été récupéré depuis deux durées de vie. Le prochain {request} relancera le renouvellement.',
    'No se ha descargado durante dos vigencias. El próximo {request} reanuda la renovación.'],
  'Expired {when}. Clients refuse it.': [
    'Abgelaufen {when}. Clients lehnen es ab.', 'Expiré {when}. Les clients le refusent.', 'Caducó {when}. Los clientes lo rechazan.'],
  'Expired {when}, as it could not be renewed. Clients refuse it.': [
    'Abgelaufen {when}, da es nicht erneuert werden konnte. Clients lehnen es ab.',
    'Expiré {when}, faute de renouvellement. Les clients le refusent.',
    'Caducó {when} porque no se pudo renovar. Los clientes lo rechazan.'],
  'Revoked on {when}.': ['Widerrufen am {when}.', 'Révoqué le {when}.', 'Revocado el {when}.'],
  'Out of service: it was deleted, and is no longer served. Copies stay valid until it expires or is revoked.': [
    'Außer Gebrauch: Es wurde gelöscht und wird nicht mehr ausgeliefert. Kopien bleiben gültig, bis es abläuft oder widerrufen wird.',
    'Hors service : il a été supprimé et n’est plus servi. Les copies restent valides jusqu’à son expiration ou sa révocation.',
    'Fuera de uso: se eliminó y ya no se sirve. Las copias siguen siendo válidas hasta que caduque o se revoque.'],
  'Replaced by a newer one.': ['Durch ein neueres ersetzt.', 'Remplacé par un plus récent.', 'Sustituido por uno más reciente.'],
  'In service but late. It expires {when}.': [
    'In Gebrauch, aber überfällig. Es läuft {when} ab.', 'En service mais en retard. Il expire {when}.',
    'En uso, pero con retraso. Caduca {when}.'],
  'Newer certificates have all of its names, so there is nothing to do.': [
    'Neuere Zertifikate haben alle Namen, also ist nichts zu tun.',
    'Des certificats plus récents ont tous ses noms : il n’y a rien à faire.',
    'Certificados más recientes tienen todos sus nombres: no hay que hacer nada.'],
  'Another caller has newer certificates for all of its names. If they have not moved there, restart what renews this one.': [
    'Ein anderer Aufrufer hat neuere Zertifikate für alle Namen. Falls sie nicht umgezogen sind, starten Sie neu, was dieses erneuert.',
    'Un autre appelant a des certificats plus récents pour ces noms. S’ils n’y sont pas allés, redémarrez ce qui renouvelle celui-ci.',
    'Otro llamante tiene certificados más recientes para todos sus nombres. Si no se han trasladado allí, reinicie lo que renueva este.'],
  'The client {client} at {address} was last seen {when}. Restart it there.': [
    'Der Client {client} auf {address} war zuletzt {when} da. Starten Sie ihn dort neu.',
    'Le client {client} à {address} a été vu {when}. Redémarrez-le là-bas.',
    'El cliente {client} en {address} se vio por última vez {when}. Reinícielo allí.'],
  'The account of the client {client} at {address} has ended. Have the client make another one.': [
    'Das Konto des Clients {client} auf {address} ist beendet. Lassen Sie ihn ein neues anlegen.',
    'Le compte du client {client} à {address} est terminé. Faites-lui en créer un autre.',
    'La cuenta del cliente {client} en {address} ha terminado. Haga que cree otra.'],
  'It has never asked when to renew.': [
    'Er hat nie gefragt, wann zu erneuern ist.', 'Il n’a jamais demandé quand renouveler.', 'Nunca ha preguntado cuándo renovar.'],
  'What happened to it': ['Was damit geschah', 'Ce qui lui est arrivé', 'Qué le ha ocurrido'],
  Replaced: ['Ersetzt', 'Remplacé', 'Sustituido'],
  'Back in service': ['Wieder in Gebrauch', 'De nouveau en service', 'De nuevo en uso'],
  'Renewal requested': ['Erneuerung erbeten', 'Renouvellement demandé', 'Renovación solicitada'],
  Covered: ['Abgedeckt', 'Couvert', 'Cubierto'],
  'Not served': ['Nicht aktiv', 'Non servi', 'No servido'],
  'What is served': ['Was ausgeliefert wird', 'Ce qui est servi', 'Qué se sirve'],
  'The newest certificate is served.': [
    'Das neueste Zertifikat wird ausgeliefert.', 'Le certificat le plus récent est servi.', 'Se sirve el certificado más reciente.'],
  'An older certificate is served.': [
    'Ein älteres Zertifikat wird ausgeliefert.', 'Un certificat plus ancien est servi.', 'Se sirve un certificado anterior.'],
  'A certificate of another issuer is served.': [
    'Ein Zertifikat eines anderen Ausstellers wird ausgeliefert.', 'Un certificat d’un autre émetteur est servi.',
    'Se sirve un certificado de otro emisor.'],
  'A revoked certificate is served.': [
    'Ein widerrufenes Zertifikat wird ausgeliefert.', 'Un certificat révoqué est servi.', 'Se sirve un certificado revocado.'],
  'An expired certificate is served.': [
    'Ein abgelaufenes Zertifikat wird ausgeliefert.', 'Un certificat expiré est servi.', 'Se sirve un certificado caducado.'],
  'The newest certificate is served, without the intermediates that lead to a root.': [
    'Das neueste Zertifikat wird ausgeliefert, aber ohne die Zwischenzertifikate bis zu einer Wurzel.',
    'Le certificat le plus récent est servi, mais sans les intermédiaires qui mènent à une racine.',
    'Se sirve el certificado más reciente, pero sin los intermedios que llevan a una raíz.'],
  'A certificate for other names is served.': [
    'Ein Zertifikat für andere Namen wird ausgeliefert.', 'Un certificat pour d’autres noms est servi.',
    'Se sirve un certificado de otros nombres.'],
  'No certificate was seen.': [
    'Es war kein Zertifikat zu sehen.', 'Aucun certificat n’a été vu.', 'No se ha visto ningún certificado.'],
  'The address is outside of the networks of the configuration.': [
    'Die Adresse liegt außerhalb der konfigurierten Netze.', 'L’adresse est hors des réseaux configurés.',
    'La dirección está fuera de las redes configuradas.'],
  'The new one was fetched {when}. Reload the server.': [
    'Das neue wurde am {when} abgerufen. Laden Sie den Server neu.',
    'Le nouveau a été récupéré le {when}. Rechargez le serveur.',
    'El nuevo fue recogido el {when}. Recargue el servidor.'],
  'its machine says so, as {caller}': [
    'laut der Maschine selbst, als {caller}', 'selon la machine elle-même, en tant que {caller}',
    'según la propia máquina, como {caller}'],
  'since {since}, seen {seen}': ['seit {since}, gesehen {seen}', 'depuis {since}, vu {seen}', 'desde {since}, visto {seen}'],
  'its ACME client is asked to renew it.': [
    'der ACME-Client wird gebeten, es zu erneuern.', 'il est demandé à son client ACME de le renouveler.',
    'se pide a su cliente ACME que lo renueve.'],
  'Replaced by a newer one on {when}.': [
    'Ersetzt durch ein neueres am {when}.', 'Remplacé par un plus récent le {when}.', 'Sustituido por uno más reciente el {when}.'],
  'Its replacement': ['Sein Nachfolger', 'Son remplaçant', 'Su sustituto'],
  'No certificate of this name is in service.': [
    'Kein Zertifikat dieses Namens ist in Gebrauch.', 'Aucun certificat de ce nom n’est en service.',
    'Ningún certificado de este nombre está en uso.'],
  'The next request for the name gets a new one.': [
    'Die nächste Anforderung für den Namen liefert ein neues.', 'La prochaine demande pour ce nom en obtient un nouveau.',
    'La próxima solicitud del nombre obtiene uno nuevo.'],
  Expires: ['Läuft ab', 'Expire', 'Caduca'],
  'Valid until': ['Gültig bis', 'Valide jusqu’au', 'Válido hasta'],
  'Valid from': ['Gültig ab', 'Valide à partir du', 'Válido desde'],
  Valid: ['Gültig', 'Validité', 'Validez'],
  'Next renewal': ['Nächste Erneuerung', 'Prochain renouvellement', 'Próxima renovación'],
  'none planned': ['keine geplant', 'aucun prévu', 'ninguna prevista'],
  'by its ACME client': ['durch den ACME-Client', 'par son client ACME', 'por su cliente ACME'],
  'the CA explains it at {url}': ['die CA erklärt es unter {url}', 'l’AC l’explique à {url}', 'la CA lo explica en {url}'],
  'Last fetched': ['Zuletzt abgerufen', 'Dernière récupération', 'Última descarga'],
  'Fetched by': ['Abgerufen von', 'Récupéré par', 'Descargado por'],
  Names: ['Namen', 'Noms', 'Nombres'],
  'Requested by': ['Angefordert durch', 'Demandé par', 'Solicitado por'],
  Key: ['Schlüssel', 'Clé', 'Clave'],
  '{type}, held by the caller': ['{type}, liegt beim Aufrufer', '{type}, détenue par l’appelant', '{type}, en poder del solicitante'],
  'not known': ['nicht bekannt', 'inconnu', 'desconocido'],
  '{way} by {who}': ['{way} von {who}', '{way} par {who}', '{way} por {who}'],
  ACME: ['ACME', 'ACME', 'ACME'],
  'the API': ['die API', 'l’API', 'la API'],
  'the inventory': ['das Inventar', 'l’inventaire', 'el inventario'],
  'the configuration': ['die Konfiguration', 'la configuration', 'la configuración'],
  'the embedded CA': ['die eingebaute CA', 'l’AC intégrée', 'la CA integrada'],
  'the embedded CA, for clients': ['die eingebaute CA, für Clients', 'l’AC intégrée, pour les clients', 'la CA integrada, para clientes'],
  'With an API key, you can look but not change anything. To make changes, sign in through the portal, or use the API.': [
    'Mit einem API-Schlüssel können Sie nur lesen. Um etwas zu ändern, melden Sie sich am Portal an oder verwenden Sie die API.',
    'Avec une clé d’API, vous pouvez seulement consulter. Pour apporter des modifications, connectez-vous au portail ou utilisez l’API.',
    'Con una clave de API solo puede consultar. Para hacer cambios, inicie sesión en el portal o use la API.'],
  'Use it': ['Verwenden', 'Utilisation', 'Uso'],
  'Once on each machine: the root, and an API key': [
    'Einmal je Rechner: die Wurzel und ein API-Schlüssel', 'Une fois par machine : la racine et une clé d’API',
    'Una vez en cada máquina: la raíz y una clave de API'],
  'If {url} has a certificate of a public CA, leave these options out: {options}.': [
    'Hat {url} ein Zertifikat einer öffentlichen CA, lassen Sie diese Optionen weg: {options}.',
    'Si {url} a un certificat d’une AC publique, omettez ces options : {options}.',
    'Si {url} tiene un certificado de una CA pública, omita estas opciones: {options}.'],
  'Fetch it into files, and keep it up to date': [
    'In Dateien abrufen und aktuell halten', 'Le récupérer dans des fichiers et le tenir à jour',
    'Descargarlo en archivos y mantenerlo al día'],
  'Read it by the API': ['Über die API lesen', 'Le lire via l’API', 'Leerlo por la API'],
  'See which certificate a server presents': [
    'Sehen, welches Zertifikat ein Server vorlegt', 'Voir quel certificat un serveur présente',
    'Ver qué certificado presenta un servidor'],
  'Details, fingerprint and chain': ['Einzelheiten, Fingerabdruck und Kette', 'Détails, empreinte et chaîne', 'Detalles, huella y cadena'],
  'Serial number': ['Seriennummer', 'Numéro de série', 'Número de serie'],
  Certificate: ['Zertifikat', 'Certificat', 'Certificado'],
  'Issuing CA': ['Ausstellende CA', 'AC émettrice', 'CA emisora'],
  'Cross certificate': ['Cross-Zertifikat', 'Certificat croisé', 'Certificado cruzado'],
  Root: ['Wurzelzertifikat', 'Racine', 'Raíz'],
  Subject: ['Inhaber', 'Sujet', 'Sujeto'],
  'none: see its names': ['keiner: siehe Namen', 'aucun : voir ses noms', 'ninguno: vea los nombres'],
  'Its fields cannot be read.': ['Seine Felder sind nicht lesbar.', 'Ses champs sont illisibles.', 'Sus campos no se pueden leer.'],
  'Chain (PEM)': ['Kette (PEM)', 'Chaîne (PEM)', 'Cadena (PEM)'],
  'Certificate alone (PEM)': ['Nur das Zertifikat (PEM)', 'Certificat seul (PEM)', 'Solo el certificado (PEM)'],
  'Root (PEM)': ['Wurzelzertifikat (PEM)', 'Racine (PEM)', 'Raíz (PEM)'],
  'Chain as text': ['Kette als Text', 'Chaîne en texte', 'Cadena como texto'],
  'The certificate and its issuers in PEM': [
    'Das Zertifikat und seine Aussteller als PEM', 'Le certificat et ses émetteurs en PEM', 'El certificado y sus emisores en PEM'],
  'History of {domain}': ['Verlauf von {domain}', 'Historique de {domain}', 'Historial de {domain}'],
  'No certificate of this name is stored.': [
    'Kein Zertifikat dieses Namens ist gespeichert.', 'Aucun certificat de ce nom n’est enregistré.',
    'No hay ningún certificado guardado con este nombre.'],
  'this page': ['diese Seite', 'cette page', 'esta página'],
  'Only the newest {count} are shown.': [
    'Nur die neuesten {count} werden angezeigt.', 'Seuls les {count} plus récents sont affichés.',
    'Solo se muestran los {count} más recientes.'],
  'Recent activity': ['Letzte Vorgänge', 'Activité récente', 'Actividad reciente'],
  'The newest rows of the audit trail do not mention this name.': [
    'Die neuesten Einträge des Protokolls nennen diesen Namen nicht.',
    'Les entrées les plus récentes du journal ne mentionnent pas ce nom.',
    'Las entradas más recientes del registro no mencionan este nombre.'],
  Issued: ['Ausgestellt', 'Émis', 'Emitido'],
  Fetched: ['Abgerufen', 'Récupéré', 'Descargado'],
  Renewed: ['Erneuert', 'Renouvelé', 'Renovado'],
  Revoked: ['Widerrufen', 'Révoqué', 'Revocado'],
  Deleted: ['Gelöscht', 'Supprimé', 'Eliminado'],
  Refused: ['Abgelehnt', 'Refusé', 'Rechazado'],
  Failed: ['Fehlgeschlagen', 'Échoué', 'Fallido'],
  '{count} times in an hour': ['{count}-mal in einer Stunde', '{count} fois en une heure', '{count} veces en una hora'],
  'Order for {domain}': ['Auftrag für {domain}', 'Commande pour {domain}', 'Pedido de {domain}'],
  'Certificates of {domain}': ['Zertifikate von {domain}', 'Certificats de {domain}', 'Certificados de {domain}'],
  Started: ['Begonnen', 'Commencée', 'Iniciado'],
  'Failures in a row': ['Fehlschläge in Folge', 'Échecs de suite', 'Fallos seguidos'],
  Id: ['Kennung', 'Identifiant', 'Identificador'],
  'The order': ['Der Auftrag', 'La commande', 'El pedido'],
  'The certificate': ['Das Zertifikat', 'Le certificat', 'El certificado'],
  'The order is done.': ['Der Auftrag ist erledigt.', 'La commande est terminée.', 'El pedido está terminado.'],
  'An order is under way.': ['Ein Auftrag läuft.', 'Une commande est en cours.', 'Hay un pedido en curso.'],
  'Its step is {step}; it began {when}. Load the page again to see its progress.': [
    'Aktueller Schritt: {step}, begonnen {when}. Laden Sie die Seite neu, um den Fortschritt zu sehen.',
    'Son étape est {step} ; elle a commencé {when}. Rechargez la page pour voir sa progression.',
    'Su paso es {step}; empezó {when}. Vuelva a cargar la página para ver su progreso.'],
  'The last order failed ({issuer}).': [
    'Der letzte Auftrag ist fehlgeschlagen ({issuer}).', 'La dernière commande a échoué ({issuer}).',
    'El último pedido falló ({issuer}).'],
  'Last try failed {when}: {why}': [
    'Letzter Versuch {when} fehlgeschlagen: {why}', 'Échec du dernier essai {when} : {why}', 'El último intento falló {when}: {why}'],
  'Next try: {when} at the earliest.': [
    'Nächster Versuch: frühestens {when}.', 'Prochain essai : {when} au plus tôt.', 'Próximo intento: {when}, como pronto.'],
  'Next try: with the next request for it; a renewal within a minute.': [
    'Nächster Versuch: mit der nächsten Anforderung, eine Erneuerung innerhalb einer Minute.',
    'Prochain essai : à la prochaine demande ; un renouvellement dans la minute.',
    'Próximo intento: con la próxima solicitud; una renovación en menos de un minuto.'],
  'To try now: {command}': ['Sofort versuchen: {command}', 'Essayer maintenant : {command}', 'Intentarlo ahora: {command}'],
  'Request it again': ['Erneut anfordern', 'Le redemander', 'Solicitarlo de nuevo'],
  Renew: ['Erneuern', 'Renouveler', 'Renovar'],
  'Renew {domain}?': ['{domain} erneuern?', 'Renouveler {domain} ?', '¿Renovar {domain}?'],
  'A new certificate is issued if this one is due. The old one stays valid until it expires.': [
    'Ein neues Zertifikat wird ausgestellt, wenn dieses fällig ist. Das alte bleibt bis zu seinem Ablauf gültig.',
    'Un nouveau certificat est émis si celui-ci est à renouveler. L’ancien reste valide jusqu’à son expiration.',
    'Se emite un certificado nuevo si ya corresponde renovar este. El anterior sigue siendo válido hasta que caduque.'],
  'Its ACME client is asked to renew it. The old one stays valid until it expires.': [
    'Sein ACME-Client wird gebeten, es zu erneuern. Das alte bleibt bis zu seinem Ablauf gültig.',
    'Son client ACME est prié de le renouveler. L’ancien reste valide jusqu’à son expiration.',
    'Se pide a su cliente ACME que lo renueve. El anterior sigue siendo válido hasta que caduque.'],
  Revoke: ['Widerrufen', 'Révoquer', 'Revocar'],
  'Revoke {domain}?': ['{domain} widerrufen?', 'Révoquer {domain} ?', '¿Revocar {domain}?'],
  'These certificates, also those that are out of service, go on the revocation list.': [
    'Diese Zertifikate, auch die, die außer Gebrauch sind, kommen auf die Sperrliste.',
    'Ces certificats, y compris ceux qui sont hors service, entrent dans la liste de révocation.',
    'Estos certificados, también los que están fuera de uso, pasan a la lista de revocación.'],
  'Clients that look there refuse them at once. The next request for the name gets a new certificate and key.': [
    'Clients, die dort nachsehen, lehnen sie sofort ab. Die nächste Anforderung liefert ein neues Zertifikat mit neuem Schlüssel.',
    'Les clients qui la consultent les refusent aussitôt. La prochaine demande obtient un certificat et une clé nouveaux.',
    'Los clientes que la consultan los rechazan de inmediato. La próxima solicitud obtiene un certificado y una clave nuevos.'],
  Delete: ['Löschen', 'Supprimer', 'Eliminar'],
  'Delete {domain}?': ['{domain} löschen?', 'Supprimer {domain} ?', '¿Eliminar {domain}?'],
  'These certificates are no longer answered or renewed.': [
    'Diese Zertifikate werden nicht mehr ausgeliefert oder erneuert.', 'Ces certificats ne sont plus servis ni renouvelés.',
    'Estos certificados ya no se sirven ni se renuevan.'],
  'Copies stay valid until they expire; to stop those too, revoke instead.': [
    'Kopien bleiben bis zu ihrem Ablauf gültig; um auch sie zu sperren, widerrufen Sie stattdessen.',
    'Les copies restent valides jusqu’à leur expiration ; pour les arrêter aussi, révoquez plutôt.',
    'Las copias siguen siendo válidas hasta que caduquen; para detenerlas también, revoque en su lugar.'],
  'Try now': ['Jetzt versuchen', 'Essayer maintenant', 'Intentarlo ahora'],
  'Try {domain} now?': ['{domain} jetzt versuchen?', 'Essayer {domain} maintenant ?', '¿Intentar {domain} ahora?'],
  'The orders for this name that failed are tried at once, within the limits of their CA.': [
    'Die fehlgeschlagenen Aufträge für diesen Namen werden sofort erneut versucht, innerhalb der Limits ihrer CA.',
    'Les commandes en échec pour ce nom sont réessayées immédiatement, dans les limites de leur AC.',
    'Los pedidos fallidos de este nombre se intentan de inmediato, dentro de los límites de su CA.'],
  'Use it when you have removed the cause.': [
    'Verwenden Sie dies, wenn Sie die Ursache behoben haben.', 'À utiliser une fois la cause supprimée.',
    'Úselo cuando haya eliminado la causa.'],
  'it is being tried.': ['wird gerade versucht.', 'essai en cours.', 'se está intentando.'],
  Check: ['Prüfen', 'Vérifier', 'Comprobar'],
  'Check {domain}?': ['{domain} prüfen?', 'Vérifier {domain} ?', '¿Comprobar {domain}?'],
  'Checks what a request for this certificate would lead to: the issuer, the proofs and the limits of the CA.': [
    'Prüft, was eine Anforderung dieses Zertifikats ergäbe: Aussteller, Nachweise und Limits der CA.',
    'Vérifie à quoi mènerait une demande de ce certificat : l’émetteur, les preuves et les limites de l’AC.',
    'Comprueba a qué llevaría una solicitud de este certificado: el emisor, las pruebas y los límites de la CA.'],
  'Nothing is ordered or changed.': [
    'Nichts wird bestellt oder geändert.', 'Rien n’est commandé ni modifié.', 'No se pide ni se cambia nada.'],
  '{domain} is not due yet': [
    '{domain} ist noch nicht fällig', '{domain} n’est pas encore à renouveler', 'Aún no corresponde renovar {domain}'],
  'It can be renewed {when}, and the service does this automatically. You do not have to do anything.': [
    'Es kann {when} erneuert werden, und der Dienst tut das von selbst. Sie müssen nichts tun.',
    'Il pourra être renouvelé {when}, et le service le fait de lui-même. Vous n’avez rien à faire.',
    'Se podrá renovar {when}, y el servicio lo hace por sí solo. No tiene que hacer nada.'],
  'It can be renewed {when}, and its ACME client does this. You do not have to do anything.': [
    'Es kann {when} erneuert werden, und sein ACME-Client tut das. Sie müssen nichts tun.',
    'Il pourra être renouvelé {when}, et son client ACME le fait. Vous n’avez rien à faire.',
    'Se podrá renovar {when}, y su cliente ACME lo hace. No tiene que hacer nada.'],
  'If it must be replaced now, revoke it: the next request gets a new certificate.': [
    'Muss es jetzt ersetzt werden, widerrufen Sie es: Die nächste Anforderung liefert ein neues.',
    'S’il doit être remplacé maintenant, révoquez-le : la prochaine demande en obtient un nouveau.',
    'Si hay que sustituirlo ahora, revóquelo: la próxima solicitud obtiene uno nuevo.'],
  'Why?': ['Warum?', 'Pourquoi ?', '¿Por qué?'],
  'No particular reason': ['Kein besonderer Grund', 'Aucune raison particulière', 'Ningún motivo en particular'],
  'Somebody else may have the private key; it is refused for good': [
    'Der private Schlüssel ist möglicherweise in fremden Händen; er wird dauerhaft abgelehnt',
    'Quelqu’un d’autre a peut-être la clé privée ; elle est refusée définitivement',
    'Puede que otra persona tenga la clave privada; se rechaza para siempre'],
  'Another certificate has taken its place': [
    'Ein anderes Zertifikat ist an seine Stelle getreten', 'Un autre certificat l’a remplacé', 'Otro certificado ha ocupado su lugar'],
  'The name is no longer in use': ['Der Name wird nicht mehr verwendet', 'Le nom n’est plus utilisé', 'El nombre ya no se usa'],
  'The name belongs to somebody else now': [
    'Der Name gehört jetzt jemand anderem', 'Le nom appartient maintenant à quelqu’un d’autre',
    'El nombre pertenece ahora a otra persona'],
  'It should not have been issued': [
    'Es hätte nicht ausgestellt werden sollen', 'Il n’aurait pas dû être émis', 'No debería haberse emitido'],
  'Somebody else may have the key of the CA': [
    'Der Schlüssel der CA ist möglicherweise in fremden Händen', 'Quelqu’un d’autre a peut-être la clé de l’AC',
    'Puede que otra persona tenga la clave de la CA'],
  Done: ['Erledigt', 'Terminé', 'Hecho'],
  'issued.': ['ausgestellt.', 'émis.', 'emitido.'],
  'renewed.': ['erneuert.', 'renouvelé.', 'renovado.'],
  'the renewal has begun.': ['die Erneuerung hat begonnen.', 'le renouvellement a commencé.', 'la renovación ha empezado.'],
  'deleted. It is no longer answered or renewed.': [
    'gelöscht. Es wird nicht mehr ausgeliefert oder erneuert.', 'supprimé. Il n’est plus servi ni renouvelé.',
    'eliminado. Ya no se sirve ni se renueva.'],
  'revoked one certificate ({reason}).': [
    'ein Zertifikat widerrufen ({reason}).', 'un certificat révoqué ({reason}).', 'un certificado revocado ({reason}).'],
  'revoked {count} certificates ({reason}).': [
    '{count} Zertifikate widerrufen ({reason}).', '{count} certificats révoqués ({reason}).',
    '{count} certificados revocados ({reason}).'],
  'Certificates that are still valid, as their CA has not revoked them: {count}. Revoke the name again.': [
    'Zertifikate, die noch gültig sind, weil ihre CA sie nicht widerrufen hat: {count}. Widerrufen Sie den Namen noch einmal.',
    'Certificats encore valides, car leur AC ne les a pas révoqués : {count}. Révoquez à nouveau le nom.',
    'Certificados que siguen siendo válidos porque su CA no los ha revocado: {count}. Revoque el nombre otra vez.'],
  'The CA does not know {count} of them, so they are revoked only here.': [
    'Die CA kennt {count} davon nicht, sie sind also nur hier widerrufen.',
    'L’AC n’en connaît pas {count} : ils ne sont révoqués qu’ici.',
    'La CA no conoce {count} de ellos, así que solo están revocados aquí.'],
  'Replicas that have not confirmed it yet: {count}. They may serve the old certificate until they reach the database.': [
    'Noch nicht bestätigt von {count} Replikaten. Sie liefern möglicherweise noch das alte aus, bis sie die Datenbank erreichen.',
    'Réplicas n’ayant pas encore confirmé : {count}. Elles servent peut-être l’ancien avant de joindre la base de données.',
    'Réplicas que aún no lo han confirmado: {count}. Quizá sirvan el anterior hasta que lleguen a la base de datos.'],
  'See its progress': ['Fortschritt ansehen', 'Voir sa progression', 'Ver su progreso'],
  'You first see what the request would do. The service then keeps the certificate and its key up to date.': [
    'Sie sehen zuerst, was die Anforderung bewirken würde. Danach hält der Dienst Zertifikat und Schlüssel aktuell.',
    'Vous voyez d’abord ce que ferait la demande. Le service tient ensuite à jour le certificat et sa clé.',
    'Primero verá qué haría la solicitud. Después, el servicio mantiene al día el certificado y su clave.'],
  'More names (optional)': ['Weitere Namen (optional)', 'Autres noms (facultatif)', 'Otros nombres (opcional)'],
  default: ['Standard', 'par défaut', 'predeterminada'],
  'Show what would happen': ['Zeigen, was passieren würde', 'Voir ce qui se passerait', 'Mostrar qué pasaría'],
  'Request it': ['Anfordern', 'Le demander', 'Solicitarlo'],
  'Check of {domain}': ['Prüfung von {domain}', 'Vérification de {domain}', 'Comprobación de {domain}'],
  'No obstacles were found.': ['Es wurden keine Hindernisse gefunden.', 'Aucun obstacle n’a été trouvé.', 'No se encontraron obstáculos.'],
  'It would fail:': ['Es würde fehlschlagen:', 'Elle échouerait :', 'Fallaría:'],
  'A request would return the stored certificate, {serial}, valid until {time}.': [
    'Eine Anforderung gäbe das gespeicherte Zertifikat {serial} zurück, gültig bis {time}.',
    'Une demande renverrait le certificat enregistré {serial}, valide jusqu’au {time}.',
    'Una solicitud devolvería el certificado guardado {serial}, válido hasta {time}.'],
  'A request would order a new certificate.': [
    'Eine Anforderung würde ein neues Zertifikat bestellen.', 'Une demande commanderait un nouveau certificat.',
    'Una solicitud pediría un certificado nuevo.'],
  'Nothing was ordered or changed.': [
    'Nichts wurde bestellt oder geändert.', 'Rien n’a été commandé ni modifié.', 'No se ha pedido ni cambiado nada.'],
  'The issuer needs no proof for these names.': [
    'Der Aussteller braucht für diese Namen keinen Nachweis.', 'L’émetteur n’exige aucune preuve pour ces noms.',
    'El emisor no necesita pruebas para estos nombres.'],
  Proofs: ['Nachweise', 'Preuves', 'Pruebas'],
  ready: ['bereit', 'prêt', 'listo'],
  failed: ['fehlgeschlagen', 'en échec', 'fallido'],
  unchecked: ['nicht geprüft', 'non vérifié', 'sin comprobar'],
  'Limits of the CA': ['Limits der CA', 'Limites de l’AC', 'Límites de la CA'],
  'request {id}': ['Anfrage {id}', 'requête {id}', 'solicitud {id}'],
  'This address is for programs, which send a key or a token. Sign in at the list of certificates instead.': [
    'Diese Adresse ist für Programme, die einen Schlüssel oder ein Token senden. Melden Sie sich stattdessen bei der Zertifikatsliste an.',
    'Cette adresse est pour les programmes, qui envoient une clé ou un jeton. Connectez-vous plutôt à la liste.',
    'Esta dirección es para programas, que envían una clave o un token. Inicie sesión en la lista de certificados.'],
  'Ask whoever runs this service for a rule that grants this to you.': [
    'Bitten Sie den Betreiber dieses Dienstes um eine Regel, die Ihnen das erlaubt.',
    'Demandez à la personne qui gère ce service une règle qui vous l’accorde.',
    'Pida a quien gestiona este servicio una regla que se lo permita.'],
  'Look for the name in the list. The first request for a name gets a certificate.': [
    'Suchen Sie den Namen in der Liste. Die erste Anforderung für einen Namen liefert ein Zertifikat.',
    'Cherchez le nom dans la liste. La première demande pour un nom obtient un certificat.',
    'Busque el nombre en la lista. La primera solicitud de un nombre obtiene un certificado.'],
  'Look for the name in the list. Finished orders are kept for a limited time.': [
    'Suchen Sie den Namen in der Liste. Erledigte Aufträge werden nur begrenzte Zeit aufbewahrt.',
    'Cherchez le nom dans la liste. Les commandes terminées sont gardées pour un temps limité.',
    'Busque el nombre en la lista. Los pedidos terminados se guardan por tiempo limitado.'],
  'Try again. If it stays like this, the log has the cause under the id of the request.': [
    'Versuchen Sie es erneut. Besteht das Problem weiter, steht die Ursache im Log unter der Kennung der Anfrage.',
    'Réessayez. Si cela persiste, le journal indique la cause sous l’identifiant de la requête.',
    'Inténtelo de nuevo. Si sigue así, el registro muestra la causa con el identificador de la solicitud.'],
  'This address is for programs, or for a form. Begin at the list instead.': [
    'Diese Adresse ist für Programme oder für ein Formular. Beginnen Sie stattdessen bei der Liste.',
    'Cette adresse est pour les programmes ou pour un formulaire. Commencez plutôt par la liste.',
    'Esta dirección es para programas o para un formulario. Empiece por la lista.'],
  'Check the address, or look for the name in the list.': [
    'Prüfen Sie die Adresse, oder suchen Sie den Namen in der Liste.', 'Vérifiez l’adresse, ou cherchez le nom dans la liste.',
    'Compruebe la dirección o busque el nombre en la lista.'],
} as const satisfies Readonly<Record<string, readonly [de: string, fr: string, es: string]>>
